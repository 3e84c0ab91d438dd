-- A licence's status, and what lists and the sweep look up beside it, apart from its other columns: `licences` has many
-- indexes, and a change of a column that stands in one of them writes every one. Kept by triggers and by nothing else;
-- who changes a licence holds its row in `licences`, so nobody waits for a row of this table.
create table licence_statuses (
  licence_id text collate "C" primary key,
  application_id text collate "C" not null,
  plan_id text collate "C" not null,
  status text not null,
  expires_on timestamptz(3)
);

-- Rows are found one by one whatever came first: a session keeps the plan of its first changes, and one made for very
-- many would read the whole table for each of the few that follow.
create function keep_statuses() returns trigger language plpgsql
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
-- Each holds up other writers until this migration is committed, readers not.
create trigger keep_statuses_of_new after insert on licences
  referencing new table as changed for each statement execute function keep_statuses();
create trigger keep_statuses_of_changed after update on licences
  referencing new table as changed for each statement execute function keep_statuses();
create trigger keep_statuses_of_gone after delete on licences
  referencing old table as changed for each statement execute function keep_statuses();

insert into licence_statuses (licence_id, application_id, plan_id, status, expires_on)
select id, application_id, plan_id, status, expires_on from licences order by id;
create index licence_statuses_by_application on licence_statuses (application_id, status, licence_id);
create index licence_statuses_by_plan on licence_statuses (plan_id, status, licence_id);
create index licence_statuses_due on licence_statuses (expires_on, licence_id)
  where expires_on is not null and status in ('active', 'suspended', 'downgraded');
analyze licence_statuses;
