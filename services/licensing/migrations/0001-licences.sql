-- Lock order, everywhere: advisory lock of an external_ref, plans by id, licences by id, plan_counts by (plan, shard).
-- The sweep alone goes without plans: it skips licences that others hold and waits for none.

-- What licences are entitled to, stored once however many licences share it; `id` is a hash of the content.
create table snapshots (
  id text collate "C" primary key,
  -- [{key, kind, value, default}], sorted by key.
  entitlements jsonb not null
);

-- Copies of the catalog's plans. The highest version wins.
create table plans (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  status text not null check (status in ('active', 'retired')),
  version bigint not null,
  -- What a licence issued now gets.
  snapshot_id text collate "C" not null references snapshots (id)
);

-- Each archive suspends once; asked again it answers with this count.
create table plan_archives (
  plan_id text collate "C" not null,
  archive_version bigint not null,
  suspended bigint not null,
  primary key (plan_id, archive_version)
);

-- Active licences by plan, changed in the transaction that changes a licence. Spread over shards, so that
-- transactions of one plan rarely wait for each other; the sum counts.
create table plan_counts (
  plan_id text collate "C" not null,
  shard smallint not null,
  active bigint not null,
  primary key (plan_id, shard)
) with (fillfactor = 50);

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
  external_ref text collate "C" not null,
  domains text[] not null default '{}',
  max_activations integer,
  max_seats integer,
  expires_on timestamptz(3),
  snapshot_id text collate "C" not null,
  -- What the sweep found, so that a renewal which arrives after it can take the expiry back.
  expired_from text,
  expired_from_reason text,
  -- Whether it has ever called home; the latest time is in licence_activity.
  seen boolean not null default false,
  legacy_key text collate "C",
  idempotency_key text collate "C",
  -- SHA-256 of the issue request's body.
  idempotency_hash bytea,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create unique index licences_idempotency on licences (application_id, idempotency_key)
  where idempotency_key is not null;
create unique index licences_legacy_key on licences (application_id, legacy_key) where legacy_key is not null;
-- One index for each listed filter and the common combination, newest first.
create index licences_newest on licences (application_id, id);
create index licences_by_status on licences (application_id, status, id);
create index licences_by_plan on licences (plan_id, id);
create index licences_by_plan_status on licences (plan_id, status, id);
create index licences_by_external_ref on licences (application_id, external_ref, id);
create index licences_never_seen on licences (application_id, id) where not seen;
create index licences_due on licences (expires_on)
  where expires_on is not null and status in ('active', 'suspended', 'downgraded');

create table licence_history (
  position bigint generated always as identity,
  licence_id text collate "C" not null,
  at timestamptz(3) not null default now(),
  type text not null,
  from_status text,
  to_status text not null,
  actor text not null,
  cause text,
  primary key (licence_id, position)
);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name;
end
$$;
create trigger append_only before update or delete or truncate on licence_history
  for each statement execute function refuse_change();

-- Hosts by which a licence is found: those it is restricted to and those seen running it.
create table licence_hosts (
  application_id text collate "C" not null,
  host text collate "C" not null,
  licence_id text collate "C" not null,
  primary key (application_id, host, licence_id)
);

-- When a licence last called home; apart from licences, so that a call-home does not touch their many indexes.
create table licence_activity (
  licence_id text collate "C" primary key,
  application_id text collate "C" not null,
  last_seen_at timestamptz(3) not null
) with (fillfactor = 80);
create index licence_activity_latest on licence_activity (application_id, last_seen_at, licence_id);

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
  constraint activations_fingerprint unique (licence_id, fingerprint)
);

create table call_homes (
  position bigint generated always as identity,
  licence_id text collate "C" not null,
  host text collate "C" not null,
  product_version text not null,
  seen_at timestamptz(3) not null default now(),
  primary key (licence_id, position)
);

-- Payments that have provisioned: a second call answers with the same licence.
create table provisions (
  application_id text collate "C" not null,
  payment_ref text collate "C" not null,
  licence_id text collate "C" not null,
  created boolean not null,
  primary key (application_id, payment_ref)
);

-- Consequences of payments that have been drawn: a second call with the same cause changes nothing.
create table payment_causes (
  licence_id text collate "C" not null,
  effect text not null,
  cause text collate "C" not null,
  primary key (licence_id, effect, cause)
);
