-- The word `merchant` names the account at the payment processor that takes the money: the processor's name and the
-- connected account, `stripe:acct_…`. Columns such as `payment_ref`, `charge_ref` and `invoice_ref` hold ids of the
-- processor. They are unique only within a merchant, so they are always looked up together with it.
--
-- Lock order: processor_events, the advisory locks of merchants in order of their names, the advisory lock of licensing's
-- epoch, purchases by purchase_ref, checkout_sessions or sale_events by id, spend_caps by account_id, cap_periods, fee_periods.

-- Connected accounts

create table processor_connections (
  account_id text collate "C" not null,
  merchant text collate "C" not null,
  -- Checkouts use the current connection. Earlier connections are kept, because payments made through them can be refunded.
  current boolean not null,
  connected_at timestamptz(3) not null default now(),
  -- When the vendor withdrew the platform's access at the processor.
  disconnected_at timestamptz(3),
  -- Whether the account may connect it again; false after another account proved that it owns the merchant.
  proven boolean not null default true,
  released_at timestamptz(3),
  primary key (account_id, merchant)
);
create unique index processor_connections_current on processor_connections (account_id) where current;
create index processor_connections_merchant on processor_connections (merchant);
-- A merchant is connected to one account at a time.
create unique index processor_connections_holder on processor_connections (merchant)
  where current and disconnected_at is null;

-- Consents that vendors have begun on the processor's consent page.
create table processor_authorizations (
  -- SHA-256 of the state. A stored hash cannot be used to confirm anything.
  state_hash bytea primary key,
  account_id text collate "C" not null,
  expires_at timestamptz(3) not null,
  -- Set when the state was used: the browser that returned with it, and the merchant that it may confirm.
  browser_hash bytea,
  merchant text collate "C",
  confirmation_hash bytea unique
);
create index processor_authorizations_of on processor_authorizations (account_id, expires_at);
create index processor_authorizations_ended on processor_authorizations (expires_at);

-- The time until which the processor's own list of events has been compared with `processor_events`.
create table reconciliations (
  merchant text collate "C" primary key,
  reconciled_to timestamptz(3) not null,
  next_at timestamptz(3) not null default now()
);

-- Sales

create table prices (
  plan_id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  price_id text collate "C" not null,
  amount bigint not null check (amount >= 0),
  currency text collate "C" not null,
  mode text not null check (mode in ('payment', 'subscription')),
  period_months integer check (period_months >= 1),
  -- The months of updates that a payment includes; null if a payment does not change until when updates are included.
  updates_months integer check (updates_months between 1 and 120),
  constraint prices_price unique (account_id, price_id)
);

create table checkout_sessions (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  plan_id text collate "C" not null,
  external_ref text collate "C" not null,
  -- Price and fee when the session was created. Later changes do not affect an open session.
  price_id text collate "C" not null,
  mode text not null check (mode in ('payment', 'subscription')),
  period_months integer,
  updates_months integer,
  amount bigint not null,
  currency text collate "C" not null,
  fee_minor bigint not null,
  fee_bps integer not null,
  fee_fixed_minor bigint not null,
  -- Entries for the licence's metadata.
  metadata jsonb not null default '{}',
  status text not null default 'open'
    check (status in ('open', 'provisioned', 'provision_failed', 'expired', 'canceled')),
  licence_id text collate "C",
  failure_reason text,
  -- The processor's state of the checkout.
  merchant text collate "C" not null,
  checkout_ref text collate "C",
  url text not null default '',
  paid_amount bigint,
  paid_currency text collate "C",
  paid_at timestamptz(3),
  payment_ref text collate "C",
  invoice_ref text collate "C",
  subscription_ref text collate "C",
  -- The end of the subscription's paid period, whether the processor will charge it again then, and whether it has ended.
  paid_until timestamptz(3),
  renews boolean,
  has_ended boolean,
  created_at timestamptz(3) not null default now()
);
create index checkout_sessions_ref on checkout_sessions (merchant, checkout_ref) where checkout_ref is not null;
create index checkout_sessions_newest on checkout_sessions (application_id, id, created_at);
create index checkout_sessions_by_status on checkout_sessions (application_id, status, id);
create index checkout_sessions_by_customer on checkout_sessions (application_id, external_ref, id);

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
  updates_until timestamptz(3),
  -- The months of updates that each renewal includes; null if a renewal does not change that.
  updates_months integer,
  -- Entries for the licence's metadata.
  metadata jsonb not null default '{}',
  status text not null check (status in ('provisioned', 'provision_failed')),
  licence_id text collate "C",
  -- Why the sale could not be provisioned; null if it could.
  failure_reason text,
  created_at timestamptz(3) not null default now(),
  constraint sale_events_sale unique (application_id, sale_id)
);
create index sale_events_newest on sale_events (application_id, id, occurred_at);
create index sale_events_by_status on sale_events (application_id, status, id);

-- What other shops report about their sales, as they report it. A row may be older than its sale.
create table sale_facts (
  position bigint generated always as identity primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  sale_id text collate "C" not null,
  kind text not null check (kind in ('renewal', 'failure', 'refund', 'chargeback', 'cancellation')),
  -- The shop's id; empty for a cancellation.
  fact_id text collate "C" not null,
  -- SHA-256 of the request's body.
  body_hash bytea not null,
  occurred_at timestamptz(3) not null,
  amount bigint,
  currency text collate "C",
  -- The renewal whose payment a refund or chargeback concerns; null: the sale's own payment.
  renewal_id text collate "C",
  -- The end that a renewal or a cancellation gives.
  ends_on timestamptz(3),
  -- Whether the sale is not provisioned yet.
  is_waiting boolean not null,
  recorded_at timestamptz(3) not null default clock_timestamp()
);
-- Refunds and chargebacks share their ids.
create unique index sale_facts_once on sale_facts
  (application_id, sale_id, (case kind when 'chargeback' then 'refund' else kind end), fact_id);
create index sale_facts_waiting on sale_facts (recorded_at) where is_waiting;

-- From a processor event to the licence: see src/purchases/README.md.

-- The inbox: an event is stored before it is acknowledged, and its body is deleted when it has been handled.
create table processor_events (
  position bigint generated always as identity primary key,
  processor text not null,
  event_id text collate "C" not null,
  merchant text collate "C" not null,
  type text not null,
  -- The exact bytes. They contain customers' data.
  body bytea,
  received_at timestamptz(3) not null default now(),
  due_at timestamptz(3) not null default now(),
  attempts integer not null default 0,
  last_error text,
  -- Whether the event waits until an operator or a restart tries it again.
  dead_lettered boolean not null default false,
  handled_at timestamptz(3),
  constraint processor_events_once unique (processor, event_id)
);
create index processor_events_due on processor_events (merchant, position) where handled_at is null and not dead_lettered;
create index processor_events_dead_lettered on processor_events (merchant) where dead_lettered;
create index processor_events_handled on processor_events (handled_at) where handled_at is not null;

-- Facts that the processor reported. Facts about one state of one object are merged into one.
create table facts (
  position bigint generated always as identity primary key,
  merchant text collate "C" not null,
  -- What the fact is about, such as `charge:ch_…`.
  fact_key text collate "C" not null,
  session_id text collate "C",
  -- The processor's ids in the fact. If none of them belongs to a known purchase, the fact waits for one that does.
  refs text[] not null,
  body jsonb not null,
  -- When the first fact about this became known.
  recorded_at timestamptz(3) not null default clock_timestamp(),
  constraint facts_once unique (merchant, fact_key)
);
create index facts_of_session on facts (session_id, position) where session_id is not null;
-- This index is read far more often than written, and with fastupdate each read would scan the pending list.
create index facts_waiting on facts using gin (refs) with (fastupdate = off) where session_id is null;
create index facts_waiting_since on facts (recorded_at) where session_id is null;

-- The processor's ids that are known to belong to a purchase.
create table purchase_links (
  merchant text collate "C" not null,
  ref text collate "C" not null,
  session_id text collate "C" not null,
  primary key (merchant, ref)
);

-- The work to do for each purchase: a checkout session (cs_…) or a sale event (sale_…).
create table purchases (
  purchase_ref text collate "C" primary key,
  account_id text collate "C" not null,
  -- When to decide what follows from the facts; null if nothing happened since the last decision.
  decide_at timestamptz(3),
  -- When to send the waiting effects to licensing; null if none is waiting.
  send_at timestamptz(3),
  -- Consecutive failures of either step.
  attempts integer not null default 0,
  -- Whether licensing did not answer a batch with it in time, so that it is sent alone.
  is_late boolean not null default false,
  -- The time of the first charge, as it was last sent to licensing.
  ordered_at timestamptz(3),
  -- The plan of its licence, by the last answer of licensing.
  licence_plan_id text collate "C"
);
create index purchases_to_decide on purchases (account_id, decide_at) where decide_at is not null;
create index purchases_to_send on purchases (account_id, send_at) where send_at is not null;

-- Effects for licensing: each is sent once, and in this order within a purchase.
create table purchase_effects (
  position bigint generated always as identity primary key,
  purchase_ref text collate "C" not null,
  -- Identifies the cause of the effect, such as `refund:rfd_…`.
  effect_key text collate "C" not null,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  -- Null if no licence changes and only the vendor is notified.
  kind text check (kind in ('paid', 'renewed', 'payment_failed', 'inquiry_opened', 'inquiry_closed',
    'partially_refunded', 'refunded', 'charged_back', 'cancelled', 'renewal_stopped', 'renewal_resumed',
    'order_corrected')),
  cause text collate "C" not null,
  at timestamptz(3) not null,
  ordered_at timestamptz(3) not null,
  plan_id text collate "C",
  external_ref text collate "C",
  ends_at timestamptz(3),
  -- Until when the payment includes updates; null if it does not change that.
  updates_until timestamptz(3),
  -- A renewal after this time ends the effect of a failure or a partial refund, also one that becomes known later.
  since timestamptz(3),
  metadata jsonb,
  -- Whether `paid` begins a subscription.
  renews boolean not null default false,
  -- The refund or chargeback that the vendor is notified of when the effect has been applied.
  refund_id text collate "C",
  state text not null default 'waiting' check (state in ('waiting', 'refused', 'done')),
  -- Whether licensing may have lost it or its purchase. Its events, or the alert about that, have been sent.
  sent_again boolean not null default false,
  decided_at timestamptz(3) not null default now(),
  done_at timestamptz(3),
  constraint purchase_effects_once unique (purchase_ref, effect_key)
);
create index purchase_effects_waiting on purchase_effects (purchase_ref, position) where state <> 'done';
create index purchase_effects_done on purchase_effects (done_at) where state = 'done' and kind is not null;
create index purchase_effects_unsent on purchase_effects (application_id, external_ref)
  where kind = 'paid' and state = 'waiting';

-- The greatest epoch of licensing's database that has answered; 0 if none has. This table has one row.
create table licensing_epoch (
  is_only boolean primary key default true check (is_only),
  ordinal bigint not null default 0
);
insert into licensing_epoch default values;

-- Times whose effects licensing may have lost. Effects that were done in such a time are sent again, then its row is
-- deleted.
create table effect_resends (
  id bigint generated always as identity primary key,
  -- Null: the effects of all accounts.
  account_id text collate "C",
  since timestamptz not null,
  until timestamptz not null
);

-- Questions to the processor about data that its events did not contain.
create table processor_questions (
  purchase_ref text collate "C" not null,
  -- `events`: whether the processor lists events that have not arrived.
  kind text not null check (kind in ('charge', 'invoice', 'subscription', 'records', 'events')),
  ref text collate "C" not null,
  account_id text collate "C" not null,
  merchant text collate "C" not null,
  -- Null when the question has been answered.
  next_at timestamptz(3),
  attempts integer not null default 0,
  -- Whether the processor has such an object.
  found boolean,
  primary key (purchase_ref, kind, ref)
);
create index processor_questions_due on processor_questions (account_id, next_at) where next_at is not null;

-- An alert is not repeated until its cause is gone.
create table open_alerts (
  account_id text collate "C" not null,
  kind text not null,
  opened_at timestamptz(3) not null default now(),
  primary key (account_id, kind)
);

-- Payments and refunds

-- The least id with a prefix at a time, as `idOf` of packages/database makes it. An id starts with the time at which its
-- row was inserted, so lists of a period read a range of ids. The few rows whose id does not match their own time are in
-- the indexes `…_ahead` (inserted before their time) and `…_late` (inserted more than an hour after it).
create function least_id(prefix text, at timestamptz, plus_ms bigint) returns text
language plpgsql immutable strict parallel safe as $$
declare
  ms bigint := greatest(0, floor(extract(epoch from at) * 1000)::bigint + plus_ms);
  digits text := '';
begin
  for i in 1..10 loop
    digits := substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (ms & 31)::int, 1) || digits;
    ms := ms >> 5;
  end loop;
  return prefix || '_' || digits || 'e008000000000000';
end
$$;

create index sale_events_ahead on sale_events (application_id, id) where id < least_id('sale', occurred_at, -300000);
create index sale_events_late on sale_events (application_id, id) where id >= least_id('sale', occurred_at, 3600000);

create table payments (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  -- `checkout:<purchase>` or `invoice:<purchase>:<invoice>`.
  source_key text collate "C" not null constraint payments_source unique,
  -- The checkout session (cs_…) or the sale event (sale_…).
  purchase_ref text collate "C" not null,
  -- The shop's id of the sale; null for a checkout session.
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
  -- The other charges of an invoice that was paid in several parts. `charge_ref` is the first.
  other_charge_refs text[] collate "C" not null default '{}',
  -- The time of the first charge, when it is known.
  charged_at timestamptz(3),
  -- none: there is no charge; pending: not known yet; absent: the processor has no such charge or does not answer.
  charge_state text not null check (charge_state in ('none', 'pending', 'known', 'absent'))
);
create index payments_newest on payments (application_id, id);
create index payments_by_purchase on payments (purchase_ref);
create index payments_by_time on payments (application_id, (coalesce(charged_at, paid_at)));
create index payments_by_licence on payments (licence_id, id) where licence_id is not null;
-- The reference that lists and events show.
create index payments_by_charge on payments (application_id, (coalesce(charge_ref, sale_id, payment_ref, id)));
create index payments_by_other_charge on payments using gin (other_charge_refs) with (fastupdate = off)
  where other_charge_refs <> '{}';
create index payments_ahead on payments (application_id, id)
  where id < least_id('pay', coalesce(charged_at, paid_at), -300000);
create index payments_late on payments (application_id, id)
  where id >= least_id('pay', coalesce(charged_at, paid_at), 3600000);

-- Refunds and chargebacks, as the vendor lists them. `kind` says which of the two it is, and whether a refund completes
-- the amount of the charge.
create table refunds (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  payment_id text collate "C" not null references payments (id),
  merchant text collate "C" not null,
  -- The refund's or dispute's id at the processor.
  ref text collate "C" not null,
  -- The refunded charge; null if it is the payment's only charge and was not known.
  charge_ref text collate "C",
  amount bigint not null,
  currency text collate "C" not null,
  kind text not null check (kind in ('full_refund', 'partial_refund', 'chargeback')),
  status text not null,
  occurred_at timestamptz(3) not null,
  -- Whether its effect was applied and the vendor was notified.
  processed boolean not null default false,
  alerted boolean not null default false,
  constraint refunds_ref unique (payment_id, ref)
);
create index refunds_newest on refunds (application_id, id);
create index refunds_by_time on refunds (application_id, occurred_at);
create index refunds_ahead on refunds (application_id, id) where id < least_id('rfd', occurred_at, -300000);
create index refunds_late on refunds (application_id, id) where id >= least_id('rfd', occurred_at, 3600000);

-- Fees

-- The ledger: rows are added and never changed. `fee_periods` is the sum of its rows by period.
create table fee_entries (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  payment_id text collate "C" not null references payments (id),
  kind text not null check (kind in ('charge', 'credit', 'reversal')),
  -- The refund that caused a credit or a reversal; empty for the charge.
  cause text collate "C" not null default '',
  amount_minor bigint not null check (case kind when 'credit' then amount_minor < 0 else amount_minor > 0 end),
  currency text collate "C" not null,
  -- UTC month of the charge.
  period text collate "C" not null check (period ~ '^[0-9]{4}-[0-9]{2}$'),
  occurred_at timestamptz(3) not null,
  booked_at timestamptz(3) not null default now(),
  constraint fee_entries_once unique (payment_id, kind, cause)
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
  -- Written once, so that the event is sent once a period.
  reached_at timestamptz(3) not null default now(),
  paused boolean not null,
  primary key (account_id, period)
);

-- Application fees to refund at the processor, after their credit was committed.
create table fee_refunds (
  -- No foreign key: it would lock the entry, and locking needs the right to update the ledger.
  fee_entry_id text collate "C" primary key,
  payment_id text collate "C" not null references payments (id),
  amount_minor bigint not null check (amount_minor > 0),
  attempts integer not null default 0,
  next_at timestamptz(3) not null default now(),
  -- When the credit was reversed, so that the fee is owed again.
  cancelled_at timestamptz(3),
  done_at timestamptz(3)
);
create index fee_refunds_due on fee_refunds (next_at) where done_at is null;

-- Money by UTC day and currency. The transaction of each change adds a row to `payment_day_changes`, and a background loop
-- adds them up in one statement, so that a reader of both tables counts each change once.

create table payment_days (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  count bigint not null,
  gross_minor bigint not null,
  refunded_minor bigint not null,
  fee_minor bigint not null,
  primary key (application_id, day, currency)
);

create table payment_day_changes (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  count bigint not null default 0,
  gross_minor bigint not null default 0,
  refunded_minor bigint not null default 0,
  fee_minor bigint not null default 0
);
create index payment_day_changes_of on payment_day_changes (application_id);
