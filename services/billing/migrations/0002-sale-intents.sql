-- Sales that are being recorded, committed before licensing is asked: where its answer is lost, the licence may be there
-- and the sale not. What stays here is done again, and is gone with the commit of its sale.
create table sale_intents (
  application_id text collate "C" not null,
  sale_id text collate "C" not null,
  id text collate "C" not null,
  account_id text collate "C" not null,
  body_hash bytea not null,
  external_ref text collate "C" not null,
  plan_id text collate "C" not null,
  amount bigint not null,
  currency text collate "C" not null,
  occurred_at timestamptz(3) not null,
  expires_on timestamptz(3),
  next_at timestamptz(3) not null,
  primary key (application_id, sale_id)
);
create index sale_intents_due on sale_intents (next_at);
