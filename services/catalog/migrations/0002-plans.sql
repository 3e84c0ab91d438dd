-- Lock order: whoever changes definitions, plans or overrides locks the row of their application first, so that
-- versions of plans grow in the order of commits and every copy resolves what is committed.

-- A key keeps its kind for ever, also when its definition is deleted: installed products ask for it by name.
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
  -- Grows with every change of what licensing copies.
  version bigint not null default 1,
  -- Version at which it was last archived, and the key that did it.
  archive_version bigint not null default 0,
  archived_by text not null default '',
  -- Version at which the status last changed. Until `unconfirmed_until` the call that changed it waits for licensing;
  -- null once licensing has acknowledged.
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
  -- Plan and definition are of one application.
  foreign key (application_id, plan_id) references plans (application_id, id),
  foreign key (application_id, definition_id) references entitlement_definitions (application_id, id) on delete cascade
);
create index plan_overrides_definition on plan_overrides (application_id, definition_id);
