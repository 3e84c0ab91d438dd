-- Accounts that move to another cell or come from one. The state is a member of the closed set `moveState`.
create table account_moves (
  account_id text collate "C" primary key,
  state text not null,
  application_ids text[] collate "C" not null,
  -- The public address of the cell to which the account has moved.
  address text not null default '',
  -- The try to copy the rows that is under way or was completed. A later try makes those before it fail.
  attempt text not null default ''
);
