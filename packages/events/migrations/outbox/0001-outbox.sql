-- Events wait here until JetStream has acknowledged them; then their rows are deleted.
-- A transaction that changes an aggregate locks its row first and appends afterwards, so for one aggregate the order
-- of `position` is the order of commit.
create table outbox (
  position bigint generated always as identity primary key,
  event_id text collate "C" not null,
  partition smallint not null,
  name text not null,
  payload bytea not null,
  trace_parent text,
  created_at timestamptz not null default clock_timestamp()
);
