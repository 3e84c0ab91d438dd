-- Keys that sign tokens and revocation lists. Of an application's keys the latest whose `signs_from` has come is in
-- use; the next one is published for a while before that, so that nobody meets its first token unprepared. A retired
-- one verifies until the last that it signed has expired.
create table signing_keys (
  kid text collate "C" primary key,
  application_id text collate "C" not null,
  public_jwk jsonb not null,
  -- PKCS #8, AES-256-GCM, bound to the kid.
  private_key bytea not null,
  created_at timestamptz not null default now(),
  signs_from timestamptz not null default now(),
  -- When the next key takes over.
  retired_at timestamptz
);
create unique index signing_keys_latest on signing_keys (application_id) where retired_at is null;
create index signing_keys_of_application on signing_keys (application_id);

-- An application's list grows under the lock of its row here, which is held until the revocation is committed: a reader
-- who has seen a version has seen all before it.
create table revocation_lists (
  application_id text collate "C" primary key
);

-- The first is version 1, and none is left out.
create table revocations (
  application_id text collate "C" not null,
  version bigint not null,
  licence_id text collate "C" not null,
  primary key (application_id, version)
);

-- Whatever revokes a licence, it is in the list when that commits. The last lock of a transaction but for the outbox.
-- The version is looked up, not counted in a row: many revoked in one statement would make as many dead versions of
-- that row, each searched through by the next (30,000 took 72 s, and 9 s so, nearly all of it the update).
create function list_revocation() returns trigger language plpgsql as $$
begin
  insert into revocation_lists (application_id) values (new.application_id) on conflict do nothing;
  perform from revocation_lists where application_id = new.application_id for update;
  insert into revocations (application_id, version, licence_id)
  select new.application_id, coalesce(max(version), 0) + 1, new.id
  from revocations where application_id = new.application_id;
  return null;
end
$$;
create trigger list_revocation after update of status on licences
  for each row when (new.status = 'revoked' and old.status <> 'revoked')
  execute function list_revocation();

-- When an installed product first exchanged the legacy key.
alter table licences add column migrated_at timestamptz(3);

-- How far the walk over all licences has come that forgets old call-homes. Its row's lock is the lease.
create table call_home_walk (
  only_row boolean primary key default true check (only_row),
  -- The licence done last; empty at the start of a round.
  after_licence_id text collate "C" not null default '',
  round_started_at timestamptz not null default '-infinity'
);
insert into call_home_walk default values;
