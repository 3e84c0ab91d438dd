-- What becomes of licences is counted from their history, not in the transactions that change them. Writers wait until
-- this migration is committed, so that each entry is counted either by the triggers below or by what follows.
lock table licences, licence_history in share row exclusive mode;

create index licence_history_by_xact on licence_history (xact) where xact is not null;

-- Which entries the days hold: those that this snapshot sees.
create table counted_history (
  only_row boolean primary key default true check (only_row),
  seen_by pg_snapshot not null
);
insert into counted_history (seen_by) values (pg_current_snapshot());

-- The days of the whole history, or of what counted_history does not see: entries of transactions that began after it
-- or had not ended then, however long one of them takes. Reads with the snapshot of the statement that calls it. Entries
-- and licences are looked up one by one (`offset 0`), whatever the planner believes of the tables.
create function days_of_history(whole boolean) returns table (
  application_id text, account_id text, day date, issued bigint, imported bigint, created bigint, suspended bigint,
  reactivated bigint, revoked bigint, expired bigint, retired bigint, downgraded bigint, active_change bigint,
  activations_freed bigint
) language sql stable rows 100
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
  with counted as materialized (select seen_by from counted_history where not whole),
  entry as (
    select licence_id, at, type, from_status, to_status from licence_history
    where xact >= (select pg_snapshot_xmax(seen_by) from counted)
    union all
    select licence_id, at, type, from_status, to_status
    from counted, pg_snapshot_xip(seen_by) as unfinished cross join lateral (
      select licence_id, at, type, from_status, to_status from licence_history where xact = unfinished offset 0
    ) h
    union all
    select licence_id, at, type, from_status, to_status from licence_history where whole
  )
  select l.application_id, l.account_id, (e.at at time zone 'UTC')::date,
    count(*) filter (where type = 'issued'), count(*) filter (where type = 'imported'),
    count(*) filter (where type = 'created'), count(*) filter (where type = 'suspended'),
    count(*) filter (where type = 'reactivated'), count(*) filter (where type = 'revoked'),
    count(*) filter (where type = 'expired'), count(*) filter (where type = 'retired'),
    count(*) filter (where type = 'downgraded'),
    sum((to_status = 'active')::int - coalesce((from_status = 'active')::int, 0)),
    count(*) filter (where type = 'activation_freed')
  from entry e cross join lateral (
    select application_id, account_id from licences where id = e.licence_id offset 0
  ) l
  group by 1, 2, 3
$$;

-- For a database that was restored into another server, whose transactions have other numbers: counts the history from
-- its beginning, and numbers what is written from now on. Writers and readers of the history wait.
create function recount_history() returns void language plpgsql as $$
begin
  lock table licence_history in access exclusive mode;
  alter table licence_history drop column xact;
  alter table licence_history add column xact xid8;
  alter table licence_history alter column xact set default pg_current_xact_id();
  create index licence_history_by_xact on licence_history (xact) where xact is not null;
  update application_days set issued = 0, imported = 0, created = 0, suspended = 0, reactivated = 0, revoked = 0,
    expired = 0, retired = 0, downgraded = 0, active_change = 0, activations_freed = 0;
  -- What triggers of earlier releases noted is in the history too.
  update application_day_changes set issued = 0, imported = 0, created = 0, suspended = 0, reactivated = 0,
    revoked = 0, expired = 0, retired = 0, downgraded = 0, active_change = 0, activations_freed = 0;
  insert into application_days as d (application_id, account_id, day, issued, imported, created, suspended,
    reactivated, revoked, expired, retired, downgraded, active_change, activations_new, activations_freed,
    activations_seen)
  select application_id, account_id, day, issued, imported, created, suspended, reactivated, revoked, expired, retired,
    downgraded, active_change, 0, activations_freed, 0
  from days_of_history(true)
  on conflict (application_id, day) do update set issued = excluded.issued, imported = excluded.imported,
    created = excluded.created, suspended = excluded.suspended, reactivated = excluded.reactivated,
    revoked = excluded.revoked, expired = excluded.expired, retired = excluded.retired,
    downgraded = excluded.downgraded, active_change = excluded.active_change,
    activations_freed = excluded.activations_freed;
  update counted_history set seen_by = pg_current_snapshot();
end
$$;

create or replace function keep_statuses() returns trigger language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
begin
  if tg_op = 'INSERT' then
    insert into licence_statuses (licence_id, application_id, plan_id, status, expires_on)
    select id, application_id, plan_id, status, expires_on from changed;
  elsif tg_op = 'UPDATE' then
    update licence_statuses s set plan_id = l.plan_id, status = l.status, expires_on = l.expires_on
    from changed l
    where s.licence_id = l.id
      and (s.plan_id, s.status, s.expires_on) is distinct from (l.plan_id, l.status, l.expires_on);
  else
    delete from licence_statuses where licence_id in (select id from changed);
  end if;
  return null;
end
$$;
alter table licence_history disable trigger note_history;
