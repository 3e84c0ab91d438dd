-- How far this service has consumed each partition of a producer's log. The position moves in the transaction of the
-- effects, by compare-and-swap. `holder` is the replica that reads the partition.
create table consumer_positions (
  source text not null,
  partition smallint not null,
  -- All batches up to this number of this epoch are consumed, and the first `done` events of the next batch. 1 is the first
  -- epoch of every log.
  epoch bigint not null default 1,
  number bigint not null default 0,
  done int not null default 0,
  moved_at timestamptz not null default now(),
  holder text,
  held_until timestamptz,
  primary key (source, partition)
);

-- Events that this service cannot process. An operator retries or discards them.
create table dead_letters (
  id bigint generated always as identity primary key,
  source text not null,
  partition smallint not null,
  number bigint not null,
  event_id text collate "C" not null,
  account_id text collate "C" not null,
  payload bytea not null,
  trace_parent text,
  error text not null,
  failed_at timestamptz not null default now()
);
create index dead_letters_of_event on dead_letters (source, event_id);
