-- An address that was set through the API, until a person has confirmed it by the link in a mail. `accounts.alert_email`
-- is where alerts go meanwhile.
create table alert_email_confirmations (
  account_id text collate "C" primary key references accounts,
  address text not null,
  -- SHA-256 of the token in the newest link; the token is kept nowhere.
  token_hash bytea check (octet_length(token_hash) = 32),
  expires_at timestamptz,
  -- When the mail with the link is to be sent; null: it was sent, or given up.
  due_at timestamptz default now(),
  tries integer not null default 0,
  mailed_at timestamptz
);
create unique index alert_email_confirmations_token on alert_email_confirmations (token_hash);
create index alert_email_confirmations_due on alert_email_confirmations (due_at) where due_at is not null;
