-- Quotas that an operator changed, by account. Other accounts have the usual quota. The transaction that creates one more
-- of something reads its row.
create table account_quotas (
  account_id text collate "C" not null,
  -- A member of the closed set `quota`. Each service has the rows of the quotas that it checks.
  quota text collate "C" not null,
  max_value bigint not null check (max_value >= 0),
  primary key (account_id, quota)
);
