-- Mails are sent account by account: a lease and the pauses between tries are the account's, not an alert's.
create table alert_mailings (
  account_id text collate "C" primary key,
  -- Grows with every lease: only the newest may end it.
  leases bigint not null default 0,
  failures integer not null default 0,
  next_mail_at timestamptz not null default now(),
  -- Alerts that the next mail counts but does not list.
  unlisted integer not null default 0
);

-- When the newest mails were sent, oldest first, by account and by address (a hash).
create table mail_allowances (
  key text collate "C" primary key,
  mailed timestamptz[] not null,
  changed_at timestamptz not null default now()
);
create index mail_allowances_changed on mail_allowances (changed_at);

drop index alerts_unsent;
alter table alerts drop column tries, drop column next_try_at;
create index alerts_waiting on alerts (account_id, id) where sent_at is null;
