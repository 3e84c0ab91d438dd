-- Events that have no number yet. A transaction that changes an aggregate locks its row first and appends afterwards, so
-- for one aggregate the order of `position` is the order of commit.
create table outbox (
  position bigint generated always as identity primary key,
  account_id text collate "C" not null,
  partition smallint not null,
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
-- truncated to remove that day. `slot` is the day modulo 8.
create table event_log (
  slot smallint not null,
  partition smallint not null,
  number bigint not null,
  epoch text not null,
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
create unique index event_log_by_number on event_log (partition, number, slot);

-- This table has one row: the newest number of each partition, and the epoch in which it was assigned.
create table event_log_state (
  is_only boolean primary key default true check (is_only),
  numbers bigint[] not null,
  epoch text,
  -- Events up to this position may have been in the outbox before the epoch began. Clocks may differ after a failover.
  began_after bigint,
  -- Identifies the running server and this table. It differs after a restore or a failover.
  incarnation text
);
insert into event_log_state (numbers) values (array_fill(0::bigint, array[8]));

-- A new epoch begins when numbers may have been lost: after a restore, a failover or a restart of PostgreSQL.
create table event_log_epochs (
  place bigint generated always as identity primary key,
  epoch text not null unique,
  first_numbers bigint[] not null,
  began_at timestamptz not null default now()
);

-- The newest position in the log that each consumer has reported.
create table event_log_readers (
  consumer text not null,
  partition smallint not null,
  number bigint not null,
  reported_at timestamptz not null default now(),
  primary key (consumer, partition)
);
