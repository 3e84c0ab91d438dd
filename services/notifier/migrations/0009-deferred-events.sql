-- Events of accounts that send more at once than their share. They were consumed from their stream, and are recorded in
-- turn with those of other accounts, each account's in order.
create table deferred_events (
  account_id text not null,
  position bigint generated always as identity,
  payload bytea not null,
  trace_parent text,
  primary key (account_id, position)
);
