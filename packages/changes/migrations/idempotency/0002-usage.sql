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
