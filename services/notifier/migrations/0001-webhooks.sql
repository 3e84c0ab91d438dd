create table endpoints (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  url text not null,
  -- null: all types.
  subscribed_events text[],
  encrypted_secret bytea not null,
  -- Grows with every change, so that of two readings of a row the later is known.
  generation bigint not null default 1,
  status text not null default 'enabled' check (status in ('enabled', 'disabled')),
  created_at timestamptz not null,
  disabled_at timestamptz,
  disabled_reason text check (disabled_reason in ('deleted', 'retries_exhausted')),
  -- Disabled, and its pending deliveries are not all marked as failed yet.
  has_leftovers boolean not null default false,
  changed_at timestamptz not null default clock_timestamp(),
  check ((status = 'disabled') = (disabled_at is not null and disabled_reason is not null))
);
create index endpoints_page on endpoints (application_id, id);
create index endpoints_changed on endpoints (changed_at);
create index endpoints_leftovers on endpoints (application_id) where has_leftovers;

-- The row is locked until the events that take their numbers from it are committed: no gap, no twin, and no reader
-- sees a number before a smaller one.
create table account_sequences (
  account_id text collate "C" primary key,
  last_sequence bigint not null
);

-- Partitions of a week are made ahead, and dropped when all they hold is past retention; what outlives an event is in
-- its deliveries. Unique by (account_id, sequence) alone, which account_sequences sees to.
create table events (
  recorded_at timestamptz not null,
  account_id text collate "C" not null,
  sequence bigint not null,
  application_id text collate "C" not null,
  id text collate "C" not null,
  -- The envelope exactly as it is sent.
  body text not null,
  trace_parent text,
  primary key (account_id, sequence, recorded_at)
) partition by range (recorded_at);
create index events_of_application on events (application_id, sequence);

-- One event on its way to one endpoint.
create table deliveries (
  id text collate "C" not null,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  event_id text collate "C" not null,
  event_type text collate "C" not null,
  -- With account_id, where the event's body is.
  recorded_at timestamptz not null,
  sequence bigint not null,
  created_at timestamptz not null,
  status text collate "C" not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempt_count integer not null default 0,
  last_response_code smallint,
  -- Attempts of the schedule: those that a person asked for are not among them.
  scheduled_attempts smallint not null default 0,
  replays_due smallint not null default 0,
  -- The schedule's next attempt, and the next of either kind.
  retry_at timestamptz,
  due_at timestamptz,
  -- Held by a sender until then. Another claims it afterwards, and what the first still reports is told by its claim.
  claim_id uuid,
  claimed_until timestamptz,
  primary key (application_id, id),
  check ((claim_id is null) = (claimed_until is null))
);
create index deliveries_of_endpoint on deliveries (endpoint_id, id);
create index deliveries_of_type on deliveries (application_id, event_type, id);
create index deliveries_of_status on deliveries (application_id, status, id);
-- A delivery that waits is in the first of these, one that is held in the second, and a finished one in neither.
create index deliveries_waiting on deliveries (endpoint_id, due_at) where claim_id is null and due_at is not null;
create index deliveries_claimed on deliveries (claimed_until) where claimed_until is not null;
create index deliveries_failing on deliveries (endpoint_id, scheduled_attempts)
  where status = 'pending' and scheduled_attempts >= 4;

-- The endpoints that have waiting deliveries, and when the first of them may be due: what is due is found by endpoint,
-- so that a million due rows of one cost the others nothing. Whoever makes a delivery wait lowers look_at afterwards
-- in the same transaction; whoever claims locks this row first and sets it to the head of what is left.
create table waiting_endpoints (
  endpoint_id text collate "C" primary key,
  look_at timestamptz not null
) with (fillfactor = 50);
create index waiting_endpoints_due on waiting_endpoints (look_at);

create table attempts (
  delivery_id text collate "C" not null,
  attempt integer not null,
  at timestamptz not null,
  response_code smallint,
  error text,
  duration_ms integer not null,
  response_excerpt text,
  primary key (delivery_id, attempt)
);

-- E-mails to vendors, until the mail server has taken them.
create table alerts (
  id bigint generated always as identity primary key,
  account_id text collate "C" not null,
  subject text not null,
  text text not null,
  created_at timestamptz not null default now(),
  tries integer not null default 0,
  next_try_at timestamptz not null default now(),
  sent_at timestamptz
);
create index alerts_unsent on alerts (next_try_at) where sent_at is null;
