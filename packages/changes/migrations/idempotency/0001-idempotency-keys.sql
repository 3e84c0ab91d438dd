-- Answers of calls that carried an idempotency key, for 24 hours. A row is inserted in the transaction of the change,
-- before the change: a second call with the same key waits for its end.
create table idempotency_keys (
  account_id text collate "C" not null,
  path text collate "C" not null,
  key text collate "C" not null,
  body_hash bytea not null,
  -- The answer's message; null only within the transaction that makes the row.
  answer bytea,
  -- False while what follows the transaction, such as a call of another service, is not known to be done.
  is_finished boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (account_id, path, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
