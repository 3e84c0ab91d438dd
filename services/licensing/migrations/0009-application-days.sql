-- What happened in an application on each day of UTC. Changes are noted in the transactions that make them, a row a
-- statement, so that nobody waits for a counter; background work adds them up into application_days and removes them,
-- in one statement, so that a reader of both tables sees each once. What is there is exact at any time.
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
  -- By how much the number of active licences changed.
  active_change bigint not null,
  activations_new bigint not null,
  activations_freed bigint not null,
  -- Activations that called home, each once; being made counts too.
  activations_seen bigint not null,
  primary key (application_id, day)
) with (fillfactor = 80);

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

-- Licences are found one by one whatever came first: a session keeps the plan of its first changes, and one made for
-- very many would read the whole table for each of the few that follow.
create function note_history() returns trigger language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
begin
  insert into application_day_changes (application_id, account_id, day, issued, imported, created, suspended,
    reactivated, revoked, expired, retired, downgraded, active_change, activations_freed)
  select l.application_id, l.account_id, (e.at at time zone 'UTC')::date,
    count(*) filter (where type = 'issued'), count(*) filter (where type = 'imported'),
    count(*) filter (where type = 'created'), count(*) filter (where type = 'suspended'),
    count(*) filter (where type = 'reactivated'), count(*) filter (where type = 'revoked'),
    count(*) filter (where type = 'expired'), count(*) filter (where type = 'retired'),
    count(*) filter (where type = 'downgraded'),
    sum((to_status = 'active')::int - coalesce((from_status = 'active')::int, 0)),
    count(*) filter (where type = 'activation_freed')
  from entries e join licences l on l.id = e.licence_id
  where type in ('issued', 'imported', 'created', 'suspended', 'reactivated', 'revoked', 'expired', 'retired',
      'downgraded', 'activation_freed')
    or (to_status = 'active') is distinct from coalesce(from_status = 'active', false)
  group by 1, 2, 3;
  return null;
end
$$;

create function note_activations() returns trigger language plpgsql as $$
begin
  insert into application_day_changes (application_id, account_id, day, activations_new, activations_seen)
  select application_id, account_id, (created_at at time zone 'UTC')::date, count(*), count(*)
  from made group by 1, 2, 3;
  return null;
end
$$;

create function note_seen() returns trigger language plpgsql as $$
begin
  insert into application_day_changes (application_id, account_id, day, activations_seen)
  values (new.application_id, new.account_id, (new.last_seen_at at time zone 'UTC')::date, 1);
  return null;
end
$$;

-- Each holds up other writers until this migration is committed, readers not: what they wrote is below, what they
-- will write is noted.
create trigger note_history after insert on licence_history
  referencing new table as entries for each statement execute function note_history();
create trigger note_activations after insert on activations
  referencing new table as made for each statement execute function note_activations();
-- Once a day for each activation.
create trigger note_seen after update of last_seen_at on activations
  for each row when ((new.last_seen_at at time zone 'UTC')::date > (old.last_seen_at at time zone 'UTC')::date)
  execute function note_seen();

-- What has happened so far. Activations that were freed are gone, and of those that are there the first and the last
-- day on which they called home are known.
with days as (
  select l.application_id, l.account_id, (h.at at time zone 'UTC')::date as day,
    count(*) filter (where type = 'issued') as issued, count(*) filter (where type = 'imported') as imported,
    count(*) filter (where type = 'created') as created, count(*) filter (where type = 'suspended') as suspended,
    count(*) filter (where type = 'reactivated') as reactivated, count(*) filter (where type = 'revoked') as revoked,
    count(*) filter (where type = 'expired') as expired, count(*) filter (where type = 'retired') as retired,
    count(*) filter (where type = 'downgraded') as downgraded,
    sum((to_status = 'active')::int - coalesce((from_status = 'active')::int, 0)) as active_change,
    0::bigint as activations_new, count(*) filter (where type = 'activation_freed') as activations_freed,
    0::bigint as activations_seen
  from licence_history h join licences l on l.id = h.licence_id
  group by 1, 2, 3
  union all
  select application_id, account_id, (created_at at time zone 'UTC')::date, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    count(*), 0, count(*)
  from activations group by 1, 2, 3
  union all
  select application_id, account_id, (last_seen_at at time zone 'UTC')::date, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    count(*)
  from activations
  where (last_seen_at at time zone 'UTC')::date > (created_at at time zone 'UTC')::date
  group by 1, 2, 3
)
insert into application_days (application_id, account_id, day, issued, imported, created, suspended, reactivated,
  revoked, expired, retired, downgraded, active_change, activations_new, activations_freed, activations_seen)
select application_id, account_id, day, sum(issued), sum(imported), sum(created), sum(suspended), sum(reactivated),
  sum(revoked), sum(expired), sum(retired), sum(downgraded), sum(active_change), sum(activations_new),
  sum(activations_freed), sum(activations_seen)
from days group by 1, 2, 3;
