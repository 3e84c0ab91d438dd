create table accounts (
  id text collate "C" primary key,
  name text not null,
  -- The address for alerts. Null: no alert is mailed.
  alert_email text,
  -- Transaction fee: basis points of the amount, plus a fixed part in minor units of the sale's currency.
  fee_bps int not null check (fee_bps between 0 and 10000),
  fee_fixed_minor bigint not null check (fee_fixed_minor >= 0),
  -- The account of BOOTSTRAP_API_KEY.
  demo boolean not null default false,
  created_at timestamptz not null default now()
);
create unique index accounts_demo on accounts (demo) where demo;

-- An address for alerts that was set through the API and is not confirmed yet. A person confirms it with the link in a
-- mail. Until then alerts go to `accounts.alert_email`.
create table alert_email_confirmations (
  account_id text collate "C" primary key references accounts,
  address text not null,
  -- SHA-256 of the token in the newest link. The token itself is not stored.
  token_hash bytea check (octet_length(token_hash) = 32),
  expires_at timestamptz,
  -- When the mail is to be sent. Null: it was sent, or too many tries have failed.
  due_at timestamptz default now(),
  tries integer not null default 0,
  mailed_at timestamptz
);
create unique index alert_email_confirmations_token on alert_email_confirmations (token_hash);
create index alert_email_confirmations_due on alert_email_confirmations (due_at) where due_at is not null;

create table applications (
  id text collate "C" primary key,
  account_id text collate "C" not null references accounts,
  name text not null,
  -- `licence.expiring` is sent when fewer days are left; 0: never.
  expiring_notice_days int not null default 14 check (expiring_notice_days between 0 and 90),
  -- The fields of the customer's page that the vendor has set; the others have their default (`customer-page.ts`).
  customer_page jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create unique index applications_page on applications (account_id, id);

create table api_keys (
  id text collate "C" primary key,
  account_id text collate "C" not null references accounts,
  -- Null: the key is valid for all applications of the account.
  application_id text collate "C",
  name text not null,
  -- SHA-256. The key itself is not stored.
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
-- Counts the keys for the account's quota.
create index api_keys_in_force on api_keys (account_id) where revoked_at is null;

-- People who sign in to the portal at an identity provider.
create table members (
  id text collate "C" primary key,
  account_id text collate "C" not null references accounts,
  -- Null: the member may use all applications of the account.
  application_id text collate "C",
  email text not null,
  role text not null check (role in ('owner', 'admin', 'support', 'viewer')),
  -- The person at the identity provider (`iss` and `sub`), from the first sign-in on.
  issuer text collate "C",
  subject text collate "C",
  -- As the identity provider names the person.
  name text,
  created_at timestamptz not null default now(),
  last_sign_in_at timestamptz,
  removed_at timestamptz,
  constraint members_application foreign key (account_id, application_id) references applications (account_id, id),
  constraint members_owner check (role <> 'owner' or application_id is null),
  constraint members_person check ((issuer is null) = (subject is null))
);
create unique index members_page on members (account_id, id);
-- The collation "C" ignores the case of ASCII letters only. Other letters can have the same lower case and look different.
create unique index members_email on members (lower(email collate "C"), account_id) where removed_at is null;
create unique index members_person on members (issuer, subject, account_id) where removed_at is null;
-- Counts the members for the account's quota, and its owners.
create index members_in_force on members (account_id, role) where removed_at is null;

-- States of sign-ins that came back from the identity provider, so that each works once. They are valid for ten minutes.
create table used_sign_in_states (
  state_hash bytea primary key check (octet_length(state_hash) = 32),
  used_at timestamptz not null default now()
);
create index used_sign_in_states_age on used_sign_in_states (used_at);

-- Lock order: a change of definitions, plans or overrides locks the row of their application first. So the versions of
-- plans grow in the order of commits, and each copy of a plan is resolved from committed rows.

-- A key keeps its kind permanently, even after its definition is deleted, because installed products ask for it by name.
create table entitlement_keys (
  application_id text collate "C" not null references applications,
  key text collate "C" not null,
  kind text not null check (kind in ('feature', 'limit')),
  primary key (application_id, key),
  unique (application_id, key, kind)
);

create table entitlement_definitions (
  id text collate "C" primary key,
  application_id text collate "C" not null references applications,
  key text collate "C" not null,
  kind text not null,
  display_name text not null,
  default_value text not null,
  created_at timestamptz not null default now(),
  constraint entitlement_definitions_key unique (application_id, key),
  constraint entitlement_definitions_kind
    foreign key (application_id, key, kind) references entitlement_keys (application_id, key, kind)
);
create unique index entitlement_definitions_page on entitlement_definitions (application_id, id);

create table plans (
  id text collate "C" primary key,
  application_id text collate "C" not null references applications,
  name text not null,
  code text collate "C" not null,
  status text not null default 'active' check (status in ('active', 'retired')),
  -- The vendor's own entries, by name.
  metadata jsonb not null default '{}',
  -- How long a trial lasts; null: the plan has no trials.
  trial_days int check (trial_days between 1 and 366),
  -- Increases with each change of a value that licensing copies, to at least `current_epoch()`.
  version bigint not null default 1,
  -- The version at which the plan was last archived, and the API key that archived it.
  archive_version bigint not null default 0,
  archived_by text not null default '',
  -- The version at which the status last changed. A call that changes the status waits for licensing to confirm it, at most
  -- until `unconfirmed_until`. Null: licensing has confirmed it.
  status_version bigint not null default 1,
  unconfirmed_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint plans_code unique (application_id, code)
);
create unique index plans_page on plans (application_id, id);

create table plan_overrides (
  plan_id text collate "C" not null,
  definition_id text collate "C" not null,
  application_id text collate "C" not null,
  value text not null,
  primary key (plan_id, definition_id),
  -- Plan and definition belong to the same application.
  foreign key (application_id, plan_id) references plans (application_id, id),
  foreign key (application_id, definition_id) references entitlement_definitions (application_id, id) on delete cascade
);
create index plan_overrides_definition on plan_overrides (application_id, definition_id);

-- The audit log: who changed what, in all services. Each row is an event of the service that made the change.
create table audit_log (
  -- `aud_` and the rest of the event's id, which contains the time of the change.
  id text collate "C" primary key,
  account_id text collate "C" not null,
  -- Null: the change concerns the account itself.
  application_id text collate "C",
  actor text collate "C" not null,
  operation text collate "C" not null,
  resource_id text collate "C" not null,
  -- JSON: {"field": {"from": …, "to": …}}.
  changes text not null,
  -- Null: no request made the change.
  request_id text
);
create index audit_log_page on audit_log (account_id, id);
create index audit_log_application on audit_log (account_id, application_id, id) where application_id is not null;
create index audit_log_actor on audit_log (account_id, actor, id);
create index audit_log_operation on audit_log (account_id, operation, id);
