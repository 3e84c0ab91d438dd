create table endpoints (
  id text collate "C" primary key,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  url text not null,
  -- Null if the endpoint is subscribed to all types.
  subscribed_events text[],
  description text,
  -- Null if no headers are sent. The values, by name, are in encrypted_headers.
  header_names text[],
  encrypted_headers bytea,
  -- Null if events about licences of all plans are sent.
  plans text[],
  -- Deliveries wait, and the endpoint is not in waiting_endpoints.
  paused boolean not null default false,
  signature text not null default 'default' check (signature in ('default', 'standard')),
  encrypted_secret bytea not null,
  -- The secret before the last rotation. Attempts are signed with it too until former_secret_until.
  former_secret bytea,
  former_secret_until timestamptz,
  -- Grows with every change, so that a process that read the row twice knows which reading is newer.
  generation bigint not null default 1,
  -- The generation for which the vendor was alerted that the secret cannot be decrypted.
  unreadable_reported bigint,
  -- When the vendor was last alerted that the endpoint will be disabled.
  disabling_reported_at timestamptz,
  status text not null default 'enabled' check (status in ('enabled', 'disabled')),
  created_at timestamptz not null,
  disabled_at timestamptz,
  disabled_reason text check (disabled_reason in ('deleted', 'retries_exhausted')),
  -- The endpoint is disabled, and some of its deliveries still have the status `pending`. Readers see them as failed.
  is_cleanup_due boolean not null default false,
  changed_at timestamptz not null default clock_timestamp(),
  check ((status = 'disabled') = (disabled_at is not null and disabled_reason is not null)),
  check ((header_names is null) = (encrypted_headers is null)),
  check ((former_secret is null) = (former_secret_until is null))
);
create index endpoints_page on endpoints (application_id, id);
create index endpoints_enabled on endpoints (application_id) where status = 'enabled';
create index endpoints_changed on endpoints (changed_at);
create index endpoints_to_clean_up on endpoints (application_id) where is_cleanup_due;
create index endpoints_with_former_secret on endpoints (former_secret_until) where former_secret is not null;

-- A transaction that takes numbers locks the row until it commits the events. So numbers have no gap and no duplicate,
-- and no reader sees a number before a smaller one.
create table account_sequences (
  account_id text collate "C" primary key,
  last_sequence bigint not null
);

-- One partition for each week. A partition is created weeks ahead, and dropped when all of its events are past
-- retention. A delivery has its own copy of the data that is shown after that. (account_id, sequence) is unique because of
-- account_sequences: a unique index of a partitioned table has to contain recorded_at.
create table events (
  recorded_at timestamptz not null,
  account_id text collate "C" not null,
  sequence bigint not null,
  application_id text collate "C" not null,
  id text collate "C" not null,
  -- The envelope, byte for byte as it is sent.
  body text not null,
  trace_parent text,
  -- The plan, at that time, of the licence that the event is about; null if it is about no licence.
  licence_plan_id text collate "C",
  primary key (account_id, sequence, recorded_at)
) partition by range (recorded_at);
create index events_of_application on events (application_id, sequence);

-- Each row is the delivery of one event to one endpoint. src/delivery-states.ts defines how status, retry_at and
-- due_at change.
create table deliveries (
  id text collate "C" not null,
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  event_id text collate "C" not null,
  event_type text collate "C" not null,
  -- The licence that the event is about; null if it is about something else.
  licence_id text collate "C",
  -- The key of the event, together with account_id.
  recorded_at timestamptz not null,
  sequence bigint not null,
  created_at timestamptz not null,
  status text collate "C" not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempt_count integer not null default 0,
  last_response_code smallint,
  -- How many attempts the retry schedule has made. Replays are not counted.
  scheduled_attempts smallint not null default 0,
  -- How many requested replays are not made yet.
  replays_due smallint not null default 0,
  -- When the retry schedule makes its next attempt.
  retry_at timestamptz,
  -- When the next attempt is made: retry_at, or earlier if a replay is due.
  due_at timestamptz,
  -- The process that leases the delivery, and until when. After that time another process may claim it.
  claim_id uuid,
  claimed_until timestamptz,
  -- The number of the attempt that delivered the event; null if that attempt was a replay.
  delivered_attempt integer,
  -- The number of the attempt after which the delivery was no longer pending.
  final_attempt integer,
  check ((claim_id is null) = (claimed_until is null))
) with (
  -- Every delivery is updated at least once. Queries read the indexes from their ends, so dead rows slow them down.
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05
);
create index deliveries_of_endpoint on deliveries (endpoint_id, id);
create index deliveries_of_type on deliveries (application_id, event_type, id);
create index deliveries_of_status on deliveries (application_id, status, id);
create index deliveries_of_event on deliveries (event_id);
create index deliveries_of_licence on deliveries (licence_id, id) where licence_id is not null;
-- A waiting delivery is in the first of these indexes, a claimed delivery in the second, and a delivery without a next
-- attempt in neither.
create index deliveries_waiting on deliveries (endpoint_id, due_at, sequence)
  where claim_id is null and due_at is not null;
create index deliveries_claimed on deliveries (claimed_until) where claimed_until is not null;
create index deliveries_failing on deliveries (endpoint_id, scheduled_attempts, retry_at)
  where status = 'pending' and scheduled_attempts >= 1;
-- The primary key is created last: while the table is empty, all indexes that begin with application_id cost the same, and
-- PostgreSQL uses the newest. With the index of statuses it finds a delivery by reading all deliveries of the application: a
-- plan that was kept from the empty table took 160 ms to record attempts among some 20,000 deliveries.
alter table deliveries add primary key (application_id, id);

-- The endpoints that have waiting deliveries and are not paused, and the earliest time at which one may be due. Due deliveries are found
-- endpoint by endpoint, so that a million due deliveries of one endpoint do not slow the others down. A statement that
-- makes a delivery wait lowers next_due_at afterwards, in the same transaction. A process that claims deliveries locks this
-- row first, and then sets next_due_at to the due_at of the first delivery that is left.
create table waiting_endpoints (
  endpoint_id text collate "C" primary key,
  account_id text collate "C" not null,
  next_due_at timestamptz not null
) with (
  fillfactor = 50,
  -- The table is small and changes all the time.
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000
);
create index waiting_endpoints_due on waiting_endpoints (next_due_at);

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

-- Two tables of changes: the transaction that records attempts adds rows without waiting for other transactions. Every
-- second one process deletes the rows and adds their sums to delivery_counts and endpoint_health.
create table delivery_count_changes (
  account_id text collate "C" not null,
  application_id text collate "C" not null,
  hour timestamptz not null,
  delivered integer not null,
  failed_attempts integer not null,
  -- For each delivered event the bucket of the time from the event to the first 2xx response.
  latency_buckets smallint[]
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

create table endpoint_health_changes (
  id bigint generated always as identity,
  endpoint_id text collate "C" not null,
  pending_change integer not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  -- Failures after the last success, and the time of the first of them.
  failures integer not null default 0,
  first_failure_at timestamptz,
  -- Whether one of these failures was the response 410 Gone.
  is_gone boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

create table delivery_counts (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  step text collate "C" not null check (step in ('day', 'hour')),
  -- Start of the day or hour, in UTC.
  at timestamptz not null,
  delivered bigint not null,
  failed_attempts bigint not null,
  -- How many of the delivered events are in each latency bucket, from bucket 0 on.
  latency_counts bigint[] not null,
  primary key (application_id, step, at)
) with (fillfactor = 50);

-- Adds two arrays entry by entry. Missing entries of the shorter array count as zero.
create function add_counts(a bigint[], b bigint[]) returns bigint[] language sql immutable as $$
  select coalesce(array_agg(coalesce(x, 0) + coalesce(y, 0) order by i), '{}')
  from unnest(a, b) with ordinality as entry (x, y, i)
$$;

create table endpoint_health (
  endpoint_id text collate "C" primary key,
  pending bigint not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  -- The time of the first failure after the last success, and how many failures there were since.
  failing_since timestamptz,
  failures bigint not null default 0,
  -- The vendor was alerted about these failures.
  is_alerted boolean not null default false
) with (fillfactor = 50);

-- Messages to vendors. They are listed by the API for 90 days, and mailed.
create table alerts (
  id bigint generated always as identity primary key,
  account_id text collate "C" not null,
  -- Null if the alert is about the whole account.
  application_id text collate "C",
  endpoint_id text collate "C",
  kind text not null check (kind in ('endpoint_failing', 'endpoint_disabling', 'endpoint_disabled', 'refund_reversed',
    'processor_event_parked', 'processor_events_missed', 'processor_disconnected', 'renewal_without_licence')),
  subject text not null,
  text text not null,
  created_at timestamptz not null default now(),
  -- When a mail listed it.
  mailed_at timestamptz,
  -- When the alert needed no more work: it was mailed, only counted in a mail, or logged because there is no address.
  completed_at timestamptz
);
create index alerts_page on alerts (account_id, id);
create index alerts_of_application on alerts (application_id, id) where application_id is not null;
create index alerts_waiting on alerts (account_id, id) where completed_at is null;
create index alerts_waiting_of_endpoint on alerts (endpoint_id, kind)
  where completed_at is null and endpoint_id is not null;
create index alerts_completed on alerts (completed_at) where completed_at is not null;

-- One row for each account that had an alert. One mail at a time is sent for an account, so the lease and the pause after
-- a failure belong to the account.
create table alert_mailings (
  account_id text collate "C" primary key,
  -- Grows with every lease: only the holder of the newest lease may end it.
  leases bigint not null default 0,
  failures integer not null default 0,
  next_mail_at timestamptz not null default now(),
  -- How many alerts the next mail counts but does not list.
  unlisted integer not null default 0
);

-- When the newest mails were sent, oldest first. The key is an account, or the hash of an address.
create table mail_allowances (
  key text collate "C" primary key,
  mailed timestamptz[] not null,
  changed_at timestamptz not null default now()
);
create index mail_allowances_changed on mail_allowances (changed_at);
