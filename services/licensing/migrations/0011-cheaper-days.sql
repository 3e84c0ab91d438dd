-- Licences that begin are counted where their status is kept, and the history of what became of them alone: an issue
-- starts one query less, and looks no licence up. Writers in between would be counted by neither, so none is.
lock table licences, licence_history in share row exclusive mode;

create or replace function keep_statuses() returns trigger language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
begin
  if tg_op = 'INSERT' then
    insert into licence_statuses (licence_id, application_id, plan_id, status, expires_on)
    select id, application_id, plan_id, status, expires_on from changed;
    insert into application_day_changes (application_id, account_id, day, issued, imported, created, active_change)
    select application_id, account_id, (created_at at time zone 'UTC')::date, count(idempotency_key),
      count(legacy_key), count(*) filter (where idempotency_key is null and legacy_key is null),
      count(*) filter (where status = 'active')
    from changed group by 1, 2, 3;
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

-- Each licence is looked up by itself (`offset 0`), whatever the planner believes of the table.
create or replace function note_history() returns trigger language plpgsql
set enable_seqscan = off as $$
begin
  if not exists (select from entries where from_status is not null) then
    return null;
  end if;
  insert into application_day_changes (application_id, account_id, day, suspended, reactivated, revoked, expired,
    retired, downgraded, active_change, activations_freed)
  select l.application_id, l.account_id, (e.at at time zone 'UTC')::date,
    count(*) filter (where type = 'suspended'), count(*) filter (where type = 'reactivated'),
    count(*) filter (where type = 'revoked'), count(*) filter (where type = 'expired'),
    count(*) filter (where type = 'retired'), count(*) filter (where type = 'downgraded'),
    sum((to_status = 'active')::int - (from_status = 'active')::int),
    count(*) filter (where type = 'activation_freed')
  from entries e cross join lateral (
    select application_id, account_id from licences where id = e.licence_id offset 0
  ) l
  where from_status is not null
  group by 1, 2, 3;
  return null;
end
$$;
