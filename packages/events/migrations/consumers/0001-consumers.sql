-- How far this service has got in each partition of a stream. `position` moves in the transaction of the effect, by
-- compare-and-swap; the lease only keeps replicas from doing the same work twice.
create table consumer_positions (
  stream text not null,
  partition smallint not null,
  -- Creation time of the stream that `position` counts in; a stream made anew counts from 1 again.
  stream_created text,
  position bigint not null default 0,
  holder text,
  held_until timestamptz not null default '-infinity',
  primary key (stream, partition)
);

create table consumer_members (
  stream text not null,
  member text not null,
  seen_at timestamptz not null,
  primary key (stream, member)
);

-- Ids of events whose effect is committed: a second copy of an event has none.
create table consumed_events (
  event_id text collate "C" primary key,
  consumed_at timestamptz not null default now()
);
create index consumed_events_age on consumed_events using brin (consumed_at);
