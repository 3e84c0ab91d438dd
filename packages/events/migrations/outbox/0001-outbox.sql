-- Events that have no number yet. A transaction that changes an aggregate locks its row first and appends afterwards, so
-- for one aggregate the order of `position` is the order of commit.
create table outbox (
  position bigint generated always as identity primary key,
  account_id text collate "C" not null,
  -- The relay derives the partition from it, so that the number of partitions counts at the time of numbering.
  account_hash bigint not null,
  -- An encoded `EventBatch` that contains only this event. Concatenated batches decode as one batch with all of their events.
  payload bytea not null,
  created_at timestamptz not null default clock_timestamp()
);
create index outbox_of_account on outbox (account_id, position);
-- This table is a queue: empty most of the time, large after a burst. Queries read it only through its indexes, so it needs
-- no statistics: with 100,000 events, gathering them takes 0.2 s of CPU time and reads mostly payload. Vacuum removes dead
-- rows slowly but steadily, and does not truncate the file, which would need an exclusive lock.
alter table outbox set (
  autovacuum_analyze_threshold = 2147483647,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay = 10,
  vacuum_truncate = off
);

-- The log: numbered batches of events, kept until all consumers have confirmed them. Each day has its own table, which is
-- truncated to remove that day. `slot` is the day modulo 16.
create table event_log (
  slot smallint not null,
  partition smallint not null,
  number bigint not null,
  epoch bigint not null,
  precedes_epoch boolean not null,
  -- The concatenated payloads of its events.
  events bytea not null,
  created_at timestamptz not null default now()
) partition by list (slot);
create table event_log_0 partition of event_log for values in (0);
create table event_log_1 partition of event_log for values in (1);
create table event_log_2 partition of event_log for values in (2);
create table event_log_3 partition of event_log for values in (3);
create table event_log_4 partition of event_log for values in (4);
create table event_log_5 partition of event_log for values in (5);
create table event_log_6 partition of event_log for values in (6);
create table event_log_7 partition of event_log for values in (7);
create table event_log_8 partition of event_log for values in (8);
create table event_log_9 partition of event_log for values in (9);
create table event_log_10 partition of event_log for values in (10);
create table event_log_11 partition of event_log for values in (11);
create table event_log_12 partition of event_log for values in (12);
create table event_log_13 partition of event_log for values in (13);
create table event_log_14 partition of event_log for values in (14);
create table event_log_15 partition of event_log for values in (15);
create unique index event_log_by_number on event_log (partition, epoch, number, slot);

-- This table has one row. `alive_at` is written at least every minute, so that a restored database knows until when it
-- remembers.
create table event_log_state (
  is_only boolean primary key default true check (is_only),
  -- The newest number of each partition.
  numbers bigint[] not null,
  alive_at timestamptz not null default clock_timestamp()
);
insert into event_log_state (numbers) values (array_fill(0::bigint, array[8]));

-- The newest batch of each partition when the log got more partitions. Until it has consumed these batches, a consumer
-- does not begin with the partitions that were added, because their accounts had events in the earlier ones.
create table event_log_growths (
  epoch bigint not null,
  numbers bigint[] not null
);

-- An epoch is a time in which this database has lost no commit. A restore, a failover or a restart of PostgreSQL ends it.
-- A number that another service remembers is compared within its epoch, because a lost time may have given it too.
create table event_log_epochs (
  ordinal bigint primary key,
  -- Identifies the running server and this database.
  incarnation text not null,
  -- The newest `alive_at` before the epoch began: commits after this time may be lost.
  alive_at timestamptz not null,
  -- The first number of each partition in this epoch.
  first_numbers bigint[] not null,
  -- Events up to this position may have been in the outbox before the epoch began. Clocks may differ after a failover.
  began_after bigint not null,
  began_at timestamptz not null default clock_timestamp()
);

-- The server's start, the database and the table's file: one of them differs after a restart, a failover or a restore.
create function database_incarnation() returns text language sql stable as $$
  select concat_ws(' ', extract(epoch from pg_postmaster_start_time()), oid, pg_relation_filenode('event_log_state'))
  from pg_database where datname = current_database()
$$;

-- The ordinal of the database's epoch. If commits may have been lost since the newest epoch began, begins another one in the
-- calling transaction. Ordinals grow also over a restore: the first is 1, the others are at least the milliseconds since
-- 1970. So `greatest(last + 1, current_epoch())` never repeats a number that a lost time has given.
-- If another service has seen a greater epoch than the newest (the clock of the lost server was ahead), pass it as `seen`.
create function current_epoch(seen bigint default 0) returns bigint language plpgsql as $$
declare
  newest event_log_epochs;
begin
  for try in 1..2 loop
    select * into newest from event_log_epochs order by ordinal desc limit 1;
    if newest.incarnation = database_incarnation() and newest.ordinal >= seen then
      return newest.ordinal;
    end if;
    -- Another transaction may begin the epoch at the same time. Relays hold this lock while they give numbers.
    perform from event_log_state for update;
  end loop;
  insert into event_log_epochs (ordinal, incarnation, alive_at, first_numbers, began_after)
  select case
      when newest is null then greatest(1, seen + 1)
      else greatest(newest.ordinal + 1, seen + 1, extract(epoch from clock_timestamp()) * 1000)
    end, database_incarnation(),
    -- If this server has not changed, the newest epoch has already lost what `seen` shows.
    case when newest.incarnation = database_incarnation() then newest.alive_at else alive_at end, array(select number + 1 from unnest(numbers) as number),
    coalesce(pg_sequence_last_value('outbox_position_seq'), 0)
  from event_log_state returning ordinal into newest.ordinal;
  return newest.ordinal;
end
$$;

-- The newest position in the log that each consumer has reported.
create table event_log_readers (
  consumer text not null,
  partition smallint not null,
  epoch bigint not null,
  number bigint not null,
  reported_at timestamptz not null default now(),
  primary key (consumer, partition)
);
