-- Lock order in every transaction: advisory lock of an external_ref, plans by id, licences by id, activations by id, leases,
-- trials, trial_days, trial_addresses, snapshots by id, plan_counts by (plan, shard), the lock of a revocation list, the
-- outbox. Only the sweep locks no plans: it skips licences that other transactions have locked, and waits for none.
-- Call-homes lock activations by id, and skip licences and leases that other transactions have locked.

-- Plans.

-- Copies of catalog's plans. The highest version of the latest epoch wins.
create table plans (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  status text not null check (status in ('active', 'retired')),
  -- The epoch of catalog's database in which the copy was read.
  epoch bigint not null,
  version bigint not null,
  code text collate "C" not null,
  -- How long a trial lasts; null: the plan has no trials.
  trial_days integer,
  -- The setting of the plan's application.
  expiring_notice_days integer not null,
  -- When that number was last raised.
  notice_raised_at timestamptz(3),
  -- A licence that is issued now gets these entitlements: [{key, kind, value, default}], sorted by key.
  entitlements jsonb not null,
  -- A hash of them: the id of their snapshot.
  snapshot_id text collate "C" not null
);
-- Not unique: after the codes of two plans were exchanged, one of the copies may still have its former code.
create index plans_by_code on plans (application_id, code);

-- The id of a snapshot. Equal entitlements in the same order have the same text.
create function snapshot_id_of(entitlements jsonb) returns text language sql immutable as $$
  select translate(rtrim(encode(sha256(convert_to(entitlements::text, 'UTF8')), 'base64'), '='), '+/', '-_')
$$;

-- Entitlements of a plan after a definition was created, changed or deleted. They stay sorted by key.
create function with_definition(entitlements jsonb, changed jsonb, deleted boolean) returns jsonb language plpgsql immutable as $$
declare
  at int := (
    select count(*) from jsonb_array_elements(entitlements) each
    where (each ->> 'key') collate "C" < (changed ->> 'key') collate "C"
  );
begin
  if entitlements -> at ->> 'key' = changed ->> 'key' then entitlements := entitlements - at; end if;
  return case when deleted then entitlements else jsonb_insert(entitlements, array[at::text], changed) end;
end
$$;

-- The entitlements of licences and purchases. Equal entitlements are stored once. A snapshot is stored with the first
-- licence or purchase that has it, and never changed or deleted. Only a licence that takes the current values of its
-- plan can leave a snapshot unused.
create table snapshots (
  id text collate "C" primary key,
  entitlements jsonb not null
);

-- Archives that have been applied. A repeated request is answered with the stored count.
create table plan_archives (
  plan_id text collate "C" not null,
  archive_version bigint not null,
  suspended bigint not null,
  primary key (plan_id, archive_version)
);

-- Plans whose new version is known from an event but not yet copied. Licensing asks catalog for them. Any answer deletes
-- the row: catalog may have lost the version.
create table awaited_plans (
  plan_id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  version bigint not null,
  since timestamptz not null default now(),
  ask_at timestamptz not null default now()
);

-- Active licences by plan, changed in the transaction that changes a licence. The number of a plan is the sum of its
-- shards: with several shards, transactions on one plan rarely wait for each other.
create table plan_counts (
  plan_id text collate "C" not null,
  shard smallint not null,
  active bigint not null,
  primary key (plan_id, shard)
) with (fillfactor = 50);

-- Licences.

create table licences (
  id text collate "C" primary key,
  key text collate "C" not null constraint licences_key unique,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  plan_id text collate "C" not null,
  status text not null
    check (status in ('active', 'suspended', 'revoked', 'expired', 'retired', 'downgraded')),
  -- Why it is suspended.
  status_reason text,
  -- The status follows from these two and the end: the word of the vendor or the plan, and the effect on its purchases that
  -- decides.
  hold text not null default 'none' check (hold in ('none', 'manual', 'plan_archived', 'revoked', 'retired')),
  purchase text not null default 'paid' check (
    purchase in ('paid', 'payment_failed', 'inquiry_opened', 'partially_refunded', 'cancelled', 'refunded')
  ),
  external_ref text collate "C" not null,
  domains text[] not null default '{}',
  max_activations integer,
  max_seats integer,
  -- A floating licence: at most this many activations hold a lease at a time.
  max_concurrent integer,
  lease_minutes integer,
  expires_on timestamptz(3),
  snapshot_id text collate "C" not null,
  -- Whether a product has ever called home. The time of the latest call is in licence_activity.
  seen boolean not null default false,
  legacy_key text collate "C",
  -- When an installed product first exchanged the legacy key.
  migrated_at timestamptz(3),
  idempotency_key text collate "C",
  -- SHA-256 of the issue request's body.
  idempotency_hash bytea,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- The purchase that governs the licence: the licence has its plan and end. Null if it has no purchase.
  governed_by text collate "C",
  -- When the vendor last reactivated it. Payment problems of its purchases before that time no longer count.
  reactivated_at timestamptz(3),
  -- The latest known event of its purchases, by the processor's clock.
  latest_event_at timestamptz(3),
  -- The vendor's own entries, by name.
  metadata jsonb not null default '{}',
  -- The product may be updated to releases until this time; null: to all releases.
  updates_until timestamptz(3),
  -- Sessions of its customer that started before this time have been ended.
  customer_sessions_since timestamptz(3),
  -- Whether a product started it as a trial and no customer has it yet.
  trial boolean not null default false,
  -- Whether `max_activations` is the limit that it got as a trial. The first payment removes that limit.
  trial_limit boolean not null default false
  -- Free space on its page lets a row change its status without writing any index.
) with (fillfactor = 85);

create unique index licences_idempotency on licences (application_id, idempotency_key)
  where idempotency_key is not null;
create unique index licences_legacy_key on licences (application_id, legacy_key) where legacy_key is not null;
-- One index for each list filter, newest first. No index contains the status: then each change of status would write
-- every index (87 instead of 29 µs of PostgreSQL with 1,000,000 licences). licence_statuses has the status.
create index licences_newest on licences (application_id, id);
create index licences_by_plan on licences (plan_id, id);
create index licences_by_external_ref on licences (application_id, external_ref, id);
create index licences_of_trials on licences (application_id, id) where trial;
create index licences_never_seen on licences (application_id, id) where not seen;
-- References in upper case, for a search that ignores letter case. Upper case does not depend on the neighbours of a
-- letter, lower case does (a final sigma). References are compared by code points, so that all references with the
-- same beginning are adjacent.
create index licences_by_folded_ref on licences
  (application_id, (upper(external_ref collate "und-x-icu") collate "C"), id);

-- A licence's status and the columns that lists and sweeps need with it. Only the triggers below write them. A
-- transaction that changes a licence holds the lock of its row in `licences`, so no transaction waits for a row here.
create table licence_statuses (
  licence_id text collate "C" primary key,
  application_id text collate "C" not null,
  plan_id text collate "C" not null,
  status text not null,
  expires_on timestamptz(3),
  -- When `expires_on` got this value.
  expires_on_since timestamptz(3) not null default now(),
  -- The end for which the notice went out. The sweep for expiring licences writes it.
  notified_end timestamptz(3)
);
create index licence_statuses_by_application on licence_statuses (application_id, status, licence_id);
create index licence_statuses_by_plan on licence_statuses (plan_id, status, licence_id);
create index licence_statuses_due on licence_statuses (expires_on, licence_id)
  where expires_on is not null and status in ('active', 'suspended', 'downgraded');
-- For notices of licences that expire soon.
create index licence_statuses_ending on licence_statuses (plan_id, expires_on, licence_id)
  where expires_on is distinct from notified_end and expires_on is not null
    and status in ('active', 'suspended', 'downgraded');

-- Joins use the primary key: a session keeps its first query plan, and a plan for very many licences would read the
-- whole table in each later statement.
create function keep_statuses() returns trigger language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
begin
  if tg_op = 'INSERT' then
    insert into licence_statuses (licence_id, application_id, plan_id, status, expires_on)
    select id, application_id, plan_id, status, expires_on from changed;
  else
    update licence_statuses s set plan_id = l.plan_id, status = l.status, expires_on = l.expires_on,
      expires_on_since = case when s.expires_on is distinct from l.expires_on then now() else s.expires_on_since end
    from changed l
    where s.licence_id = l.id
      and (s.plan_id, s.status, s.expires_on) is distinct from (l.plan_id, l.status, l.expires_on);
  end if;
  return null;
end
$$;
create trigger keep_statuses_of_new after insert on licences
  referencing new table as changed for each statement execute function keep_statuses();
create trigger keep_statuses_of_changed after update on licences
  referencing new table as changed for each statement execute function keep_statuses();

-- Trials.

-- The trial that each machine has had in an application. A row stays permanently, so a machine gets no second trial.
create table trials (
  application_id text collate "C" not null,
  -- SHA-256 of the application's id and the fingerprint. The fingerprint itself is not stored.
  fingerprint_hash bytea not null check (octet_length(fingerprint_hash) = 32),
  licence_id text collate "C" not null,
  primary key (application_id, fingerprint_hash)
);

-- How many trials an application has started on the latest UTC day with a trial, for the quota.
create table trial_days (
  application_id text collate "C" primary key,
  day date not null,
  started integer not null
) with (fillfactor = 50);

-- How many trials of an application an address has started on the latest UTC day with one. Rows of earlier days are deleted.
create table trial_addresses (
  application_id text collate "C" not null,
  -- SHA-256 of the application's id and the address. The address itself is not stored.
  address_hash bytea not null check (octet_length(address_hash) = 32),
  day date not null,
  started integer not null,
  primary key (application_id, address_hash)
);
create index trial_addresses_by_day on trial_addresses (day);

-- The entries of licences' metadata, for lists. Only the triggers below write this table.
create table licence_metadata (
  -- metadata_entry() of the application, the name and the value. Lists look for exact pairs, so a hash is enough, and a
  -- long value does not make the index larger.
  entry bytea not null,
  licence_id text collate "C" not null,
  primary key (entry, licence_id)
);

-- Neither an application's id nor a name contains a space.
create function metadata_entry(application_id text, name text, value text) returns bytea language sql stable as $$
  select sha256(convert_to(application_id || ' ' || name || ' ' || value, 'UTF8'))
$$;

-- Without sequential scans, because a session keeps the plan that it made when the table was empty.
create function keep_metadata() returns trigger language plpgsql set enable_seqscan = off as $$
begin
  if tg_op = 'UPDATE' then
    delete from licence_metadata where licence_id = new.id and entry = any(array(
      select metadata_entry(new.application_id, key, value) from jsonb_each_text(old.metadata)
    ));
  end if;
  insert into licence_metadata (entry, licence_id)
  select metadata_entry(new.application_id, key, value), new.id from jsonb_each_text(new.metadata);
  return null;
end
$$;
create trigger keep_metadata_of_new after insert on licences
  for each row when (new.metadata <> '{}') execute function keep_metadata();
create trigger keep_metadata_of_changed after update of metadata on licences
  for each row when (new.metadata <> old.metadata) execute function keep_metadata();

-- Overrides.

-- Values of one licence that differ from its snapshot. An override stays here after its end. A transaction that writes
-- overrides of a licence holds the lock of the licence's row.
create table licence_overrides (
  licence_id text collate "C" not null,
  key text collate "C" not null,
  kind text not null,
  value text not null,
  ends_on timestamptz(3),
  note text,
  created_at timestamptz(3) not null default now(),
  -- Whether the end of the override is in the history.
  end_recorded boolean not null default false,
  primary key (licence_id, key)
);
create index licence_overrides_due on licence_overrides (ends_on, licence_id)
  where ends_on is not null and not end_recorded;

-- History.

create table licence_history (
  position bigint generated always as identity,
  licence_id text collate "C" not null,
  at timestamptz(3) not null default now(),
  type text not null,
  from_status text,
  to_status text not null,
  actor text not null,
  cause text,
  -- The changed fields of an entry of type `changed`: {<field>: {"from": …, "to": …}}; null for every other type.
  changes jsonb,
  primary key (licence_id, position)
);
create index licence_history_freed on licence_history (licence_id, position)
  where type = 'activation_freed' and actor in ('product', 'customer');

-- The history is append-only. The exception: products and customers can write any number of entries by freeing activations,
-- and the oldest of these are deleted.
create function refuse_change() returns trigger language plpgsql as $$
begin
  -- The rows of an account that has moved to another cell are deleted here.
  if tg_op = 'DELETE' and current_setting('licensing.account_moves', true) = 'on' then return old; end if;
  raise exception '% is append-only', tg_table_name;
end
$$;
create trigger append_only before update or truncate on licence_history
  for each statement execute function refuse_change();
create trigger entries_stay before delete on licence_history
  for each row when (old.type <> 'activation_freed' or old.actor not in ('product', 'customer')) execute function refuse_change();

-- Activations.

create table activations (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  licence_id text collate "C" not null,
  fingerprint text collate "C" not null,
  host text collate "C" not null,
  product_version text not null,
  created_at timestamptz(3) not null default now(),
  last_seen_at timestamptz(3) not null default now(),
  -- When the last token of the activation ends, also the token in an offline file. Null before the first token.
  token_ends_at timestamptz(3),
  -- When its last file for a machine without a network ends. Until then it keeps its slot, and its lease if the licence is
  -- floating, unless the vendor frees it.
  offline_until timestamptz(3),
  -- Set if its product has deactivated it, but it keeps its slot until this time. For its product there is no such
  -- activation any more, unless the same machine activates again.
  held_until timestamptz(3),
  constraint activations_fingerprint unique (licence_id, fingerprint)
);
create index activations_newest on activations (licence_id, id);
create index activations_by_host on activations (application_id, host, licence_id);
create index activations_held on activations (licence_id, held_until) where held_until is not null;
-- For the removal of activations whose product has deactivated them.
create index activations_held_until on activations (held_until) where held_until is not null;

-- How often products and customers have freed something of a licence, on the latest day on which they did. Counted under the
-- lock of the licence's row.
create table freed_activations (
  licence_id text collate "C" not null,
  -- `own`: a release or deactivation that ended a lease or freed a slot at once. `oldest`: an activation was replaced.
  -- `customer`: the customer removed a machine.
  what text not null,
  -- A UTC day.
  day date not null,
  times integer not null,
  primary key (licence_id, what)
);

-- Floating licences.

-- The licences that limit concurrent use.
create table floating_licences (
  licence_id text collate "C" primary key,
  -- The number of activations of the licence, which may be very large. It changes with them, under the licence's
  -- lock.
  activations integer not null,
  -- The number of the licence's leases that are counted.
  leases integer not null default 0 check (leases >= 0),
  -- When the licence became floating. Null after activations from before that time without a lease were removed.
  floating_since timestamptz(3)
);
create index floating_licences_since on floating_licences (floating_since) where floating_since is not null;

-- The latest lease of each activation of a floating licence. The row stays after the end of the lease, until the
-- activation is removed.
--
-- The leases of a licence that have not ended are never more than its max_concurrent, because:
--
-- - Each lease that has not ended is counted. `counted` and `floating_licences.leases` change together, under the lock of
--   the licence's row.
-- - A lease is given under that lock, and only if fewer than max_concurrent are counted. Before that, leases that have
--   ended are no longer counted. Leases that another transaction has locked are skipped: they may be extended.
-- - Without that lock, a transaction extends a lease only if it has locked the lease, and the lease is counted and has
--   not ended.
--
-- All times are those of the database's clock, at the time of the statement.
create table leases (
  activation_id text collate "C" primary key,
  licence_id text collate "C" not null,
  ends_at timestamptz(3) not null,
  counted boolean not null
);
create index leases_of_licence on leases (licence_id, counted, ends_at);
-- For the removal of activations that have had no lease for long.
create index leases_by_end on leases (ends_at);

-- Call-homes.

-- The latest calls of each licence, in slots that are used in turn. `number` counts the licence's calls.
create table call_homes (
  licence_id text collate "C" not null,
  slot smallint not null,
  number bigint not null,
  host text collate "C" not null,
  product_version text not null,
  seen_at timestamptz(3) not null,
  primary key (licence_id, slot)
) with (fillfactor = 70);

-- When a licence last called home. Separate from licences, so that a call-home does not write their many indexes.
create table licence_activity (
  licence_id text collate "C" primary key,
  application_id text collate "C" not null,
  last_seen_at timestamptz(3) not null,
  -- How many calls the licence has made. Calls are numbered under the lock of this row.
  calls bigint not null default 0
) with (fillfactor = 80);
-- For lists of licences seen since a time.
create index licence_activity_newest on licence_activity (application_id, licence_id);

-- Hosts by which a licence is found: hosts that it is restricted to, and hosts on which it was seen.
create table licence_hosts (
  application_id text collate "C" not null,
  host text collate "C" not null,
  licence_id text collate "C" not null,
  -- When the host was last seen, at most a day too early; null if the licence is only restricted to it. If a licence has
  -- too many, the host that was seen longest ago is deleted.
  last_seen_at timestamptz(3),
  primary key (application_id, host, licence_id)
);
create index licence_hosts_seen on licence_hosts (licence_id, last_seen_at) where last_seen_at is not null;

-- Counts by day.

-- What happened in an application on each UTC day. A trigger writes changes of licences, and the statements that write
-- activations write theirs, to application_day_changes. Background work adds them up here. A reader adds the rest, so the numbers are exact at any time.
create table application_days (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  issued bigint not null,
  imported bigint not null,
  created bigint not null,
  suspended bigint not null,
  reactivated bigint not null,
  revoked bigint not null,
  expired bigint not null,
  retired bigint not null,
  downgraded bigint not null,
  -- The change of the number of active licences.
  active_change bigint not null,
  activations_new bigint not null,
  activations_freed bigint not null,
  -- Activations that called home, each once; a new activation counts too.
  activations_seen bigint not null,
  primary key (application_id, day)
) with (fillfactor = 80);

-- One row for each statement that changes licences or activations, so that no transaction waits for a counter. Adding up
-- deletes the rows in the same statement, so that a reader of both tables sees each change once.
create table application_day_changes (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  issued bigint not null default 0,
  imported bigint not null default 0,
  created bigint not null default 0,
  suspended bigint not null default 0,
  reactivated bigint not null default 0,
  revoked bigint not null default 0,
  expired bigint not null default 0,
  retired bigint not null default 0,
  downgraded bigint not null default 0,
  active_change bigint not null default 0,
  activations_new bigint not null default 0,
  activations_freed bigint not null default 0,
  activations_seen bigint not null default 0
) with (
  -- Rows live for seconds.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1
);
create index application_day_changes_of on application_day_changes (application_id);

-- Licences are looked up one by one (`offset 0`), whatever the planner's estimates are.
create function note_history() returns trigger language plpgsql as $$
begin
  insert into application_day_changes (application_id, account_id, day, issued, imported, created, suspended,
    reactivated, revoked, expired, retired, downgraded, activations_freed, active_change)
  select l.application_id, l.account_id, (e.at at time zone 'UTC')::date,
    count(*) filter (where type = 'issued'), count(*) filter (where type = 'imported'),
    count(*) filter (where type = 'created'), count(*) filter (where type = 'suspended'),
    count(*) filter (where type = 'reactivated'), count(*) filter (where type = 'revoked'),
    count(*) filter (where type = 'expired'), count(*) filter (where type = 'retired'),
    count(*) filter (where type = 'downgraded'), count(*) filter (where type = 'activation_freed'),
    sum((to_status = 'active')::int - coalesce((from_status = 'active')::int, 0))
  from entered e cross join lateral (
    select application_id, account_id from licences where id = e.licence_id offset 0
  ) l
  where e.from_status is distinct from e.to_status or e.type = 'activation_freed'
  group by 1, 2, 3;
  return null;
end
$$;
create trigger note_history after insert on licence_history
  referencing new table as entered for each statement execute function note_history();

-- Revocations.

-- A revocation takes the lock of its application's row here and holds it until it commits: a reader who has seen a
-- version has seen all earlier ones.
create table revocation_lists (
  application_id text collate "C" primary key,
  -- The newest epoch of the database that a reader has seen (`current_epoch`); 0 in the first. It counts as a version, greater
  -- than each that the database has lost. A reader writes it under the lock, so that no revocation that has taken a
  -- smaller version commits later.
  epoch bigint not null default 0
);

-- The versions of an application grow. In the first epoch they are numbered from 1 without gaps.
create table revocations (
  application_id text collate "C" not null,
  version bigint not null,
  licence_id text collate "C" not null,
  primary key (application_id, version)
);

-- A trigger adds every revoked licence to its list in the same transaction. The version follows the highest one and the
-- epochs, also that of another cell's database from which the list came, not a counter in revocation_lists: a statement that revokes many licences would leave a dead version of the
-- counter's row for each, and every later one searches through them (30,000 licences took 72 s, and 9 s this way).
create function list_revocation() returns trigger language plpgsql as $$
declare
  list_epoch bigint;
begin
  insert into revocation_lists (application_id) values (new.application_id) on conflict do nothing;
  select epoch into list_epoch from revocation_lists where application_id = new.application_id for update;
  insert into revocations (application_id, version, licence_id)
  select new.application_id, greatest(max(version), nullif(current_epoch(), 1), list_epoch) + 1, new.id
  from revocations where application_id = new.application_id;
  return null;
end
$$;
create trigger list_revocation after update of status on licences
  for each row when (new.status = 'revoked' and old.status <> 'revoked')
  execute function list_revocation();

-- Keys.

-- Keys that sign tokens and revocation lists. An application signs with the latest key whose `signs_from` has passed. The
-- next key is published some time earlier, so that every verifier knows it before its first token. A retired key verifies
-- until everything that it signed has expired.
create table signing_keys (
  kid text collate "C" primary key,
  application_id text collate "C" not null,
  public_jwk jsonb not null,
  -- PKCS #8, AES-256-GCM, bound to the kid.
  private_key bytea not null,
  created_at timestamptz not null default now(),
  signs_from timestamptz not null default now(),
  -- When the next key takes over.
  retired_at timestamptz,
  -- When the last offline token that the key signed ends. The key verifies until then, retired or not.
  offline_until timestamptz(0)
);
create unique index signing_keys_latest on signing_keys (application_id) where retired_at is null;
create index signing_keys_of_application on signing_keys (application_id);

-- Keys that sign an application's signing keys. Products have the public root keys compiled in. The kid is the public key
-- itself, so an answer can name the key without a look-up.
create table root_keys (
  kid text collate "C" primary key,
  application_id text collate "C" not null,
  -- Numbered from 1. The highest number is the newest key. All keys that are not retired sign.
  generation integer not null,
  -- PKCS #8, AES-256-GCM, bound to the kid.
  private_key bytea not null,
  created_at timestamptz(3) not null default now(),
  retired_at timestamptz(3),
  -- If several replicas make an application's first key at once, one wins.
  constraint root_keys_generation unique (application_id, generation)
);

-- The latest key set that each root key signed. Every replica sends this set, so a product never gets an older set
-- than before.
create table signed_key_sets (
  root_kid text collate "C" primary key references root_keys (kid),
  -- SHA-256 of the keys in it.
  digest bytea not null,
  issued_at timestamptz(0) not null,
  jws text not null
);

-- Purchases.

-- A checkout with all invoices of its subscription, or a sale. The terms on which a licence was issued or imported
-- count as its first purchase: they get a row here, with the licence's id as the ref, when the customer pays for
-- another purchase. A transaction that changes rows of a licence, here or in `purchase_effects`, holds the lock of
--   the licence's row.
create table purchases (
  application_id text collate "C" not null,
  purchase_ref text collate "C" not null,
  account_id text collate "C" not null,
  licence_id text collate "C" not null,
  -- The processor's time of its first charge; the year 1 for the terms on which the licence was issued or imported.
  ordered_at timestamptz(3) not null,
  plan_id text collate "C" not null,
  snapshot_id text collate "C" not null,
  ends_at timestamptz(3),
  -- Plan, snapshot and end as they were bought, before all renewals. If the vendor has set another end, that end.
  bought_plan_id text collate "C" not null,
  bought_snapshot_id text collate "C" not null,
  bought_ends_at timestamptz(3),
  -- How often the vendor has set another end. Renewals that were recorded before do not move the end any more.
  end_revision integer not null default 0,
  -- When it was refunded in full, charged back or cancelled.
  terminated_at timestamptz(3),
  -- Whether it was refunded in full or charged back.
  money_returned boolean not null default false,
  -- The latest renewal, the latest series of failed payments, and the latest partial refund.
  renewed_at timestamptz(3),
  failed_at timestamptz(3),
  partially_refunded_at timestamptz(3),
  -- A renewal after these times ends the effect of the failed payments and of the partial refund; null: after they happened.
  failed_since timestamptz(3),
  partially_refunded_since timestamptz(3),
  -- The first and the latest inquiry, and the latest time at which an inquiry was closed.
  first_inquiry_at timestamptz(3),
  inquiry_at timestamptz(3),
  inquiry_closed_at timestamptz(3),
  -- Whether it is a subscription that the processor will charge again, and when this was last stopped or resumed.
  renews boolean not null default false,
  renews_since timestamptz(3),
  -- When it was cancelled. It then never renews again.
  cancelled_at timestamptz(3),
  -- The end that its cancellation gives, whatever its renewals gave.
  cancelled_to timestamptz(3),
  -- Until when its first payment includes updates; null: the payment does not set this.
  updates_until timestamptz(3),
  -- The latest time until which its first payment, or a renewal that counts, includes updates.
  paid_updates_until timestamptz(3),
  -- Entries that its first payment brings, or that the licence had when it was first paid.
  metadata jsonb not null default '{}',
  -- When it stops being valid, or stopped; null: never (see `fellAt`).
  falls_at timestamptz(3) generated always as (
    case when coalesce(terminated_at, ends_at) is not null then greatest(ordered_at, least(
      terminated_at, date_trunc('second', ends_at at time zone 'UTC') at time zone 'UTC'
    )) end
  ) stored,
  -- Whether it is known to have stopped being valid. The sweep marks those whose end has passed.
  fallen boolean not null default false,
  primary key (application_id, purchase_ref)
);
-- Whatever the number of a licence's purchases is, these indexes find the few that can govern it.
create index purchases_of_licence on purchases (licence_id, ordered_at, purchase_ref);
create index purchases_valid on purchases (licence_id, ordered_at, purchase_ref) where not fallen;
create index purchases_falling on purchases (licence_id, fallen, falls_at, ordered_at, purchase_ref)
  where falls_at is not null;
create index purchases_by_updates on purchases (licence_id, paid_updates_until) where paid_updates_until is not null;
create index purchases_due on purchases (falls_at) where not fallen and falls_at is not null;

-- The effects on purchases, each once, with their times by the processor's clock.
create table purchase_effects (
  licence_id text collate "C" not null,
  purchase_ref text collate "C" not null,
  kind text not null,
  cause text collate "C" not null,
  at timestamptz(3) not null,
  -- The end, plan and updates that a renewal gives, and the purchase's `end_revision` when it was recorded.
  ends_at timestamptz(3),
  end_revision integer not null,
  plan_id text collate "C",
  snapshot_id text collate "C",
  updates_until timestamptz(3),
  primary key (licence_id, purchase_ref, kind, cause)
);
-- The renewals that decide about the end, the plan and the updates of a purchase.
create index purchase_effects_by_end on purchase_effects (licence_id, purchase_ref, end_revision, ends_at)
  where kind = 'renewed';
create index purchase_effects_by_time on purchase_effects (licence_id, purchase_ref, at) where kind = 'renewed';
create index purchase_effects_by_plan on purchase_effects (licence_id, purchase_ref, at, cause)
  where kind = 'renewed' and plan_id is not null;
create index purchase_effects_by_updates on purchase_effects (licence_id, purchase_ref, updates_until)
  where kind = 'renewed' and updates_until is not null;

-- The names in the metadata that the payments of a licence bring, with the value that the latest payment brings, and the first
-- and the latest payment with that name.
create table paid_metadata (
  licence_id text collate "C" not null,
  name text collate "C" not null,
  value text not null,
  first_ordered_at timestamptz(3) not null,
  first_ref text collate "C" not null,
  last_ordered_at timestamptz(3) not null,
  last_ref text collate "C" not null,
  primary key (licence_id, name)
) with (fillfactor = 80);
create index paid_metadata_first on paid_metadata (licence_id, first_ordered_at, first_ref, name);

-- Payments that have provisioned: a second call answers with the same licence.
create table provisions (
  application_id text collate "C" not null,
  payment_ref text collate "C" not null,
  licence_id text collate "C" not null,
  created boolean not null,
  primary key (application_id, payment_ref)
);
