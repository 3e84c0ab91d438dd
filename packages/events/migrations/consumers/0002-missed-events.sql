-- How far the stream was compared with what has been consumed. It counts in the stream of `audited_created`.
alter table consumer_positions
  add column audited bigint not null default 0,
  add column audited_created text;

-- Events that a stream holds before the position and that had no effect. The comparison adds them; consuming them
-- removes them.
create table missed_events (
  stream text not null,
  seq bigint not null,
  partition smallint not null,
  event_id text collate "C" not null,
  found_at timestamptz not null default now(),
  primary key (stream, seq)
);

-- Ids of events that went to the dead-letter stream: not missed. Published again, they are consumed as new ones.
create table dead_lettered_events (
  event_id text collate "C" primary key,
  dead_lettered_at timestamptz not null default now()
);
create index dead_lettered_events_age on dead_lettered_events using brin (dead_lettered_at);
