-- Answers of calls that carried an idempotency key, for 24 hours. A row is inserted in the transaction of the change. That
-- transaction holds an advisory lock of the key from its start, so a second call with the same key waits for its end.
create table idempotency_keys (
  account_id text collate "C" not null,
  path text collate "C" not null,
  key text collate "C" not null,
  body_hash bytea not null,
  -- The answer's message.
  answer bytea not null,
  -- False while what follows the transaction, such as a call of another service, is not known to be done.
  is_finished boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (account_id, path, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

-- Bytes of the answers that are kept for an account, by the hour in which they were kept: when records are deleted after
-- a day, their hours end too, and nothing is subtracted. Spread over shards, so that calls of one account rarely wait
-- for each other.
create table idempotency_usage (
  account_id text collate "C" not null,
  hour timestamptz(0) not null,
  shard smallint not null,
  bytes bigint not null,
  primary key (account_id, hour, shard)
) with (fillfactor = 50);
