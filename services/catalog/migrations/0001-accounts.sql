create table accounts (
  id text collate "C" primary key,
  name text not null,
  alert_email text,
  -- Transaction fee: basis points of the amount, plus a fixed part in minor units of the sale's currency.
  fee_bps int not null check (fee_bps between 0 and 10000),
  fee_fixed_minor bigint not null check (fee_fixed_minor >= 0),
  -- The account of BOOTSTRAP_API_KEY.
  demo boolean not null default false,
  created_at timestamptz not null default now()
);
create unique index accounts_demo on accounts (demo) where demo;

-- What the running service gives new accounts, for licensing-admin, which does not share its environment.
create table new_account_fees (
  only_row boolean primary key default true check (only_row),
  fee_bps int not null,
  fee_fixed_minor bigint not null
);

create table applications (
  id text collate "C" primary key,
  account_id text collate "C" not null references accounts,
  name text not null,
  created_at timestamptz not null default now()
);
create unique index applications_page on applications (account_id, id);

create table api_keys (
  id text collate "C" primary key,
  account_id text collate "C" not null references accounts,
  -- Null: reaches all of the account's applications.
  application_id text collate "C",
  name text not null,
  -- SHA-256; the key itself is kept nowhere.
  key_hash bytea not null check (octet_length(key_hash) = 32),
  last_four text not null,
  scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['admin', 'read', 'revoke', 'issue']),
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz,
  constraint api_keys_key_hash unique (key_hash),
  constraint api_keys_application foreign key (account_id, application_id) references applications (account_id, id)
);
create index api_keys_page on api_keys (account_id, id);
