-- Where an operator changed how many of something an account may have. Read in the transaction that makes one more.
create table account_quotas (
  account_id text collate "C" not null,
  -- A member of the closed set quota; each service has rows of what it counts alone.
  quota text collate "C" not null,
  most bigint not null check (most >= 0),
  primary key (account_id, quota)
);
