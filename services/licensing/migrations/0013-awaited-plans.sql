-- Plans of which an event named a newer version than the copy held. They are asked of catalog, and gone once it is here.
create table awaited_plans (
  plan_id text primary key,
  account_id text not null,
  application_id text not null,
  version bigint not null,
  since timestamptz not null default now()
);
