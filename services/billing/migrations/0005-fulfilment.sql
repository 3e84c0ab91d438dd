-- From event to effect in one direction: an event's facts are recorded and its purchase is due; what follows is decided
-- from the purchase's whole history; effects and questions are carried out with no transaction open.
--
-- Lock order: processor_events, the merchants' advisory locks in order of their names, fulfilments by purchase, then as
-- in 0001.

-- Work on a purchase: a checkout session (cs_…) or a sale event (sale_…).
create table fulfilments (
  purchase_ref text collate "C" primary key,
  account_id text collate "C" not null,
  -- When to decide what follows from its history; null: nothing has happened since.
  due_at timestamptz(3),
  -- When to carry out its effects; null: none are waiting.
  carry_at timestamptz(3),
  -- How often in a row that has failed.
  attempts integer not null default 0,
  -- The time of its first charge that licensing was last given.
  ordered_at timestamptz(3),
  -- Sold by an earlier release, and not decided by this one yet.
  former boolean not null default false
);
create index fulfilments_due on fulfilments (account_id, due_at) where due_at is not null;
create index fulfilments_carry on fulfilments (account_id, carry_at) where carry_at is not null;
create index fulfilments_former on fulfilments (purchase_ref) where former;

-- What the processor reported, added and never changed but for the purchase that it turns out to be of.
create table facts (
  position bigint generated always as identity primary key,
  merchant text collate "C" not null,
  -- The event's id, or what the processor's records said.
  source_key text collate "C" not null,
  session_id text collate "C",
  -- The processor's ids in it; what names none of a known purchase waits for a fact that links them.
  refs text[] not null,
  body jsonb not null,
  recorded_at timestamptz(3) not null default clock_timestamp(),
  constraint facts_once unique (merchant, source_key)
);
create index facts_of_session on facts (session_id, position) where session_id is not null;
create index facts_waiting on facts using gin (refs) where session_id is null;
create index facts_waiting_since on facts (recorded_at) where session_id is null;

-- The processor's ids that are known to be of a purchase.
create table purchase_links (
  merchant text collate "C" not null,
  ref text collate "C" not null,
  session_id text collate "C" not null,
  primary key (merchant, ref)
);

-- What licensing is to be sent, in this order for each purchase, and each once.
create table purchase_effects (
  position bigint generated always as identity primary key,
  purchase_ref text collate "C" not null,
  -- What it follows from, such as `refund:rfd_…`.
  effect_key text collate "C" not null,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  -- Null: it changes no licence, and only the vendor is notified.
  kind text,
  cause text collate "C" not null,
  at timestamptz(3) not null,
  ordered_at timestamptz(3) not null,
  plan_id text collate "C",
  external_ref text collate "C",
  ends_at timestamptz(3),
  charged_back boolean not null default false,
  -- The refund or chargeback that is processed with it.
  refund_id text collate "C",
  state text not null default 'waiting' check (state in ('waiting', 'refused', 'done')),
  done_at timestamptz(3),
  constraint purchase_effects_once unique (purchase_ref, effect_key)
);
create index purchase_effects_waiting on purchase_effects (purchase_ref, position) where state <> 'done';

-- What the processor is asked, because no event says it.
create table processor_questions (
  purchase_ref text collate "C" not null,
  kind text not null check (kind in ('charge', 'invoice', 'subscription', 'records')),
  ref text collate "C" not null,
  account_id text collate "C" not null,
  merchant text collate "C" not null,
  -- null: it was answered.
  next_at timestamptz(3),
  attempts integer not null default 0,
  -- Whether there was something to find.
  found boolean,
  answered_at timestamptz(3),
  primary key (purchase_ref, kind, ref)
);
create index processor_questions_due on processor_questions (account_id, next_at) where next_at is not null;

-- An alert that stays one until its cause is gone, however many things fail of it.
create table open_alerts (
  account_id text collate "C" not null,
  kind text not null,
  opened_at timestamptz(3) not null default now(),
  primary key (account_id, kind)
);

-- A refund, its failure and another refund are entries of their own.
alter table fee_entries add column cause text collate "C" not null default '';
alter table fee_entries drop constraint fee_entries_once;
alter table fee_entries add constraint fee_entries_once unique (payment_id, kind, cause);
alter table fee_refunds add column canceled_at timestamptz(3);

-- Sales that licensing has been sent, or is being sent, as purchases. An earlier release does not set it.
alter table sale_events add column sent_as_purchase boolean not null default false;
create index sale_events_unsent on sale_events (id) where not sent_as_purchase;
alter table sale_events add column failed_at timestamptz(3);

-- Events are worked on by replicas of this release alone: those of the release before find none that is due, and one
-- that they had begun is recorded again here. What both do has the same keys, and is done once.
alter table processor_events add column due_at timestamptz(3) not null default now();
alter table processor_events add column recorded_at timestamptz(3);
create function keep_for_recording() returns trigger language plpgsql as $$
begin
  new.next_at := 'infinity';
  if tg_op = 'UPDATE' and old.handled_at is null and new.handled_at is not null and new.recorded_at is null then
    new.handled_at := null;
    new.body := old.body;
  end if;
  return new;
end
$$;
update processor_events set next_at = 'infinity', parked = false, attempts = 0 where handled_at is null;
create trigger keep_for_recording before insert or update on processor_events
  for each row execute function keep_for_recording();
drop index processor_events_due;
drop index processor_events_new;
create index processor_events_due on processor_events (merchant, position) where handled_at is null and not parked;
create index processor_events_parked on processor_events (merchant) where parked;
create index processor_events_handled on processor_events (handled_at) where handled_at is not null;

alter table reconciliations add column failing_since timestamptz(3);
