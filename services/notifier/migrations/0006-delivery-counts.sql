-- What senders add in the transaction that records attempts, without waiting for each other. A summing-up every half
-- second takes the rows out again and adds them to the tables below.
create table delivery_tallies (
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  hour timestamptz not null,
  delivered integer not null,
  failed_attempts integer not null,
  -- One entry for each delivered: the bucket of its time from event to first 2xx.
  latency_buckets smallint[]
);
create table endpoint_tallies (
  id bigint generated always as identity,
  endpoint_id text collate "C" not null,
  pending_change integer not null default 0,
  last_success_at timestamptz,
  -- After that success.
  failures integer not null default 0,
  first_failure_at timestamptz,
  last_failure_at timestamptz
);
alter table delivery_tallies set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
alter table endpoint_tallies set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

create table delivery_counts (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  step text collate "C" not null check (step in ('day', 'hour')),
  -- Start of the step, of UTC.
  at timestamptz not null,
  delivered bigint not null,
  failed_attempts bigint not null,
  -- How many of the delivered are in each bucket of time, from bucket 0 on.
  latency_counts bigint[] not null,
  primary key (application_id, step, at)
) with (fillfactor = 50);

-- Adds entry by entry; the shorter one has zeros behind its end.
create function add_counts(a bigint[], b bigint[]) returns bigint[] language sql immutable as $$
  select coalesce(array_agg(coalesce(x, 0) + coalesce(y, 0) order by i), '{}')
  from unnest(a, b) with ordinality as entry (x, y, i)
$$;

create table endpoint_health (
  endpoint_id text collate "C" primary key,
  pending bigint not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  -- The first failure after the last success, and how many there were since.
  failing_since timestamptz,
  failures bigint not null default 0,
  -- The alert about these failures is made.
  is_alerted boolean not null default false
) with (fillfactor = 50);

-- Pending deliveries are counted here rather than by the writers: those of earlier releases change deliveries too.
create function tally_pending() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into endpoint_tallies (endpoint_id, pending_change)
    select endpoint_id, count(*) from new_rows where status = 'pending' group by endpoint_id;
  else
    insert into endpoint_tallies (endpoint_id, pending_change)
    select endpoint_id, sum(change) from (
      select endpoint_id, 1 as change from new_rows where status = 'pending'
      union all
      select endpoint_id, -1 from old_rows where status = 'pending'
    ) changed
    group by endpoint_id having sum(change) <> 0;
  end if;
  return null;
end $$;
create trigger tally_pending_of_new after insert on deliveries
  referencing new table as new_rows for each statement execute function tally_pending();
create trigger tally_pending_of_changed after update on deliveries
  referencing old table as old_rows new table as new_rows for each statement execute function tally_pending();

-- Pending ones wait or are held: the partial indexes of those two find them without reading the others.
insert into endpoint_health (endpoint_id, pending)
select endpoint_id, count(*) from (
  select endpoint_id from deliveries where claim_id is null and due_at is not null and status = 'pending'
  union all
  select endpoint_id from deliveries where claimed_until is not null and status = 'pending'
) pending
group by endpoint_id;
