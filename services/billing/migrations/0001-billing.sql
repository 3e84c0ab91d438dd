-- Lock order, everywhere: checkout_sessions or sale_events by id, spend_caps by account, cap_periods, fee_periods.
--
-- `merchant` is who took the money at the processor: the processor's name and the connected account, `stripe:acct_…`.
-- `payment_ref`, `charge_ref`, `invoice_ref` and the like are the processor's ids; they mean something only together
-- with their merchant, and are never looked up without it.

create table processor_connections (
  account_id text collate "C" not null,
  merchant text collate "C" not null,
  -- The one that checkouts go to; former ones still tell of refunds of what was sold through them.
  current boolean not null,
  connected_at timestamptz(3) not null default now(),
  -- The vendor withdrew the platform's access at the processor.
  disconnected_at timestamptz(3),
  primary key (account_id, merchant)
);
create unique index processor_connections_current on processor_connections (account_id) where current;
create index processor_connections_merchant on processor_connections (merchant);

-- How far the processor's own list of events has been compared with ours.
create table reconciliations (
  merchant text collate "C" primary key,
  reconciled_to timestamptz(3) not null,
  next_at timestamptz(3) not null default now()
);

create table prices (
  plan_id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  price_id text collate "C" not null,
  amount bigint not null check (amount >= 0),
  currency text collate "C" not null,
  mode text not null check (mode in ('payment', 'subscription')),
  period_months integer check (period_months >= 1),
  constraint prices_price unique (account_id, price_id)
);

create table checkout_sessions (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  plan_id text collate "C" not null,
  external_ref text collate "C" not null,
  -- What was asked, and on what terms: changes of the price or the fee do not reach an open session.
  price_id text collate "C" not null,
  mode text not null check (mode in ('payment', 'subscription')),
  period_months integer,
  amount bigint not null,
  currency text collate "C" not null,
  fee_minor bigint not null,
  fee_bps integer not null,
  fee_fixed_minor bigint not null,
  status text not null default 'open'
    check (status in ('open', 'provisioned', 'provision_failed', 'expired', 'canceled')),
  licence_id text collate "C",
  provisioned_at timestamptz,
  failure_reason text,
  -- What the processor says. States only move up: none, unpaid, expired, failed, paid.
  merchant text collate "C" not null,
  checkout_ref text collate "C",
  url text not null default '',
  payment_state smallint not null default 0,
  paid_amount bigint,
  paid_currency text collate "C",
  paid_at timestamptz(3),
  payment_ref text collate "C",
  invoice_ref text collate "C",
  subscription_ref text collate "C",
  -- End of the subscription's first period.
  period_end timestamptz(3),
  -- What has been drawn from the subscription's story so far.
  suspended_streak text,
  subscription_ended boolean not null default false,
  created_at timestamptz(3) not null default now()
);
create index checkout_sessions_ref on checkout_sessions (merchant, checkout_ref) where checkout_ref is not null;
create index checkout_sessions_payment on checkout_sessions (merchant, payment_ref) where payment_ref is not null;
create index checkout_sessions_licence on checkout_sessions (licence_id) where licence_id is not null;
create index checkout_sessions_subscription on checkout_sessions (merchant, subscription_ref)
  where subscription_ref is not null;

create table sale_events (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  sale_id text collate "C" not null,
  -- SHA-256 of the request's body.
  body_hash bytea not null,
  external_ref text collate "C" not null,
  plan_id text collate "C" not null,
  amount bigint not null,
  currency text collate "C" not null,
  occurred_at timestamptz(3) not null,
  expires_on timestamptz(3),
  status text not null check (status in ('provisioned', 'provision_failed')),
  licence_id text collate "C",
  provisioned_at timestamptz,
  created_at timestamptz(3) not null default now(),
  constraint sale_events_sale unique (application_id, sale_id)
);

create index sale_events_licence on sale_events (licence_id) where licence_id is not null;

create table payments (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  -- `checkout:<session>`, `sale:<sale event>` or `invoice:<session>:<invoice>`.
  source_key text collate "C" not null constraint payments_source unique,
  session_id text collate "C",
  sale_id text collate "C",
  invoice_ref text collate "C",
  plan_id text collate "C" not null,
  external_ref text collate "C" not null,
  amount bigint not null,
  currency text collate "C" not null,
  fee_minor bigint not null,
  licence_id text collate "C",
  paid_at timestamptz(3) not null,
  merchant text collate "C",
  payment_ref text collate "C",
  charge_ref text collate "C",
  -- The charge's own time, once it is known.
  charged_at timestamptz(3),
  -- none: there is no charge; pending: not looked up yet; absent: the processor does not tell.
  charge_state text not null check (charge_state in ('none', 'pending', 'known', 'absent')),
  -- End of the period that an invoice paid for, and whether the licence follows it.
  period_end timestamptz(3),
  renewed boolean not null default false
);
create index payments_newest on payments (application_id, id);
create index payments_by_session on payments (session_id) where session_id is not null;
create index payments_by_ref on payments (merchant, payment_ref) where payment_ref is not null;

-- What the processor has told, each fact under its own key and merged so that order and repetition do not matter.
create table charge_facts (
  merchant text collate "C" not null,
  charge_ref text collate "C" not null,
  payment_ref text collate "C",
  amount bigint,
  currency text collate "C",
  charged_at timestamptz(3),
  -- Cumulative, as the processor counts it.
  refunded bigint not null default 0,
  primary key (merchant, charge_ref)
);
create index charge_facts_payment on charge_facts (merchant, payment_ref);

create table refund_facts (
  merchant text collate "C" not null,
  refund_ref text collate "C" not null,
  -- The charge's id where the charge was made without a payment.
  payment_ref text collate "C" not null,
  charge_ref text collate "C",
  amount bigint not null,
  currency text collate "C" not null,
  created_at timestamptz(3) not null,
  -- As the processor last had it; only moves on.
  status text not null check (status in ('pending', 'succeeded', 'failed', 'canceled')),
  -- Whether it ever succeeded; failing later does not take that back. When, as far as an event told it.
  succeeded boolean not null,
  succeeded_at timestamptz(3),
  failed_at timestamptz(3),
  -- Inferred from the charge's total, until the refund itself is told.
  derived boolean not null default false,
  -- Part of what had been inferred before it was told: it counts for nothing itself.
  covered boolean not null default false,
  -- When to act on it: at once if the processor's own records confirm that nothing earlier is missing, else when
  -- nothing more has come of the payment for a moment.
  ripe_at timestamptz(3) not null,
  primary key (merchant, refund_ref)
);
create index refund_facts_payment on refund_facts (merchant, payment_ref);

create table dispute_facts (
  merchant text collate "C" not null,
  dispute_ref text collate "C" not null,
  payment_ref text collate "C" not null,
  charge_ref text collate "C",
  amount bigint not null,
  currency text collate "C" not null,
  opened_at timestamptz(3) not null,
  status text not null check (status in ('open', 'won', 'lost', 'closed')),
  -- The stages that it has passed, and when, as far as an event told it.
  opening_told boolean not null,
  inquiry boolean not null,
  inquiry_closed boolean not null,
  inquiry_closed_at timestamptz(3),
  chargeback boolean not null,
  chargeback_at timestamptz(3),
  ripe_at timestamptz(3) not null,
  -- What has been drawn from it; a chargeback is in `refunds`.
  suspended boolean not null default false,
  resumed boolean not null default false,
  primary key (merchant, dispute_ref)
);
create index dispute_facts_payment on dispute_facts (merchant, payment_ref);

create table invoice_facts (
  merchant text collate "C" not null,
  invoice_ref text collate "C" not null,
  subscription_ref text collate "C" not null,
  -- The subscription's first, which its checkout pays.
  first boolean not null,
  amount bigint not null,
  currency text collate "C" not null,
  period_end timestamptz(3),
  paid_at timestamptz(3) not null,
  -- What paid it, once that is known.
  payment_ref text collate "C",
  primary key (merchant, invoice_ref)
);
create index invoice_facts_subscription on invoice_facts (merchant, subscription_ref);
create index invoice_facts_payment on invoice_facts (merchant, payment_ref) where payment_ref is not null;

create table invoice_failures (
  merchant text collate "C" not null,
  invoice_ref text collate "C" not null,
  attempt integer not null,
  subscription_ref text collate "C" not null,
  failed_at timestamptz(3) not null,
  primary key (merchant, invoice_ref, attempt)
);
create index invoice_failures_subscription on invoice_failures (merchant, subscription_ref);

create table subscription_ends (
  merchant text collate "C" not null,
  subscription_ref text collate "C" not null,
  ended_at timestamptz(3) not null,
  ripe_at timestamptz(3) not null,
  primary key (merchant, subscription_ref)
);

-- Refunds and chargebacks of our payments, as the vendor lists them.
create table refunds (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  payment_id text collate "C" not null references payments (id),
  merchant text collate "C" not null,
  -- The refund's or dispute's id at the processor.
  ref text collate "C" not null,
  amount bigint not null,
  currency text collate "C" not null,
  lane text not null check (lane in ('full_refund', 'partial_refund', 'chargeback')),
  status text not null,
  occurred_at timestamptz(3) not null,
  -- Whether the licence and the vendor have been told.
  processed boolean not null default false,
  alerted boolean not null default false,
  constraint refunds_ref unique (payment_id, ref)
);
create index refunds_newest on refunds (application_id, id);
create index refunds_by_payment on refunds (payment_id);
create index refunds_by_ref on refunds (merchant, ref);

-- The ledger: rows are added and never changed. `fee_periods` is its projection.
create table fee_entries (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  payment_id text collate "C" not null references payments (id),
  kind text not null check (kind in ('charge', 'credit', 'reversal')),
  amount_minor bigint not null check (case kind when 'credit' then amount_minor < 0 else amount_minor > 0 end),
  currency text collate "C" not null,
  -- UTC month of the charge.
  period text collate "C" not null check (period ~ '^[0-9]{4}-[0-9]{2}$'),
  occurred_at timestamptz(3) not null,
  booked_at timestamptz(3) not null default now(),
  constraint fee_entries_once unique (payment_id, kind)
);
create index fee_entries_newest on fee_entries (account_id, id);
create index fee_entries_by_application on fee_entries (account_id, application_id, id);
create index fee_entries_by_period on fee_entries (account_id, period, occurred_at);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name;
end
$$;
create trigger append_only before update or delete or truncate on fee_entries
  for each statement execute function refuse_change();
revoke update, delete, truncate on fee_entries from public, current_user;

create table fee_periods (
  account_id text collate "C" not null,
  period text collate "C" not null,
  currency text collate "C" not null,
  spent_minor bigint not null,
  primary key (account_id, period, currency)
);

create table spend_caps (
  account_id text collate "C" primary key,
  cap_minor bigint check (cap_minor >= 0),
  currency text collate "C"
);

create table cap_periods (
  account_id text collate "C" not null,
  period text collate "C" not null,
  -- Set once: the event goes out once in a period.
  reached_at timestamptz(3) not null default now(),
  paused boolean not null,
  primary key (account_id, period)
);

-- Application fees to be given back at the processor, after the credit is committed.
create table fee_refunds (
  -- No foreign key: it would lock the entry, which needs the right to update the ledger.
  fee_entry_id text collate "C" primary key,
  payment_id text collate "C" not null references payments (id),
  amount_minor bigint not null check (amount_minor > 0),
  attempts integer not null default 0,
  next_at timestamptz(3) not null default now(),
  done_at timestamptz(3)
);
create index fee_refunds_due on fee_refunds (next_at) where done_at is null;

-- The processor's events: stored before they are acknowledged, kept until they are handled.
create table processor_events (
  position bigint generated always as identity primary key,
  processor text not null,
  event_id text collate "C" not null,
  merchant text collate "C" not null,
  type text not null,
  -- The exact bytes; dropped once handled, for they hold customers' data.
  body bytea,
  received_at timestamptz(3) not null default now(),
  attempts integer not null default 0,
  next_at timestamptz(3) not null default now(),
  -- What it tells is stored, whether or not everything has been drawn from it.
  recorded boolean not null default false,
  last_error text,
  parked boolean not null default false,
  handled_at timestamptz(3),
  constraint processor_events_once unique (processor, event_id)
);
create index processor_events_due on processor_events (next_at) where handled_at is null;
create index processor_events_new on processor_events (merchant) where handled_at is null and not recorded;
