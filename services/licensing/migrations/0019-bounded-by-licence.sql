-- What a product can cause is bounded for each licence: calls, hosts, and entries of the history.

-- The latest calls of a licence alone, in slots that are used in turn: the row's `number` counts the licence's calls.
create table latest_call_homes (
  licence_id text collate "C" not null,
  slot smallint not null,
  number bigint not null,
  host text collate "C" not null,
  product_version text not null,
  seen_at timestamptz(3) not null,
  primary key (licence_id, slot)
) with (fillfactor = 70);
-- How many calls a licence has made; calls are numbered under the lock of this row.
alter table licence_activity add column calls bigint not null default 0;
lock table call_homes, licence_activity, licence_hosts in share row exclusive mode;
insert into latest_call_homes (licence_id, slot, number, host, product_version, seen_at)
select licence_id, number % 50, number, host, product_version, seen_at
from (
  select *, row_number() over (partition by licence_id order by position) as number,
    count(*) over (partition by licence_id) as calls
  from call_homes
) numbered
where number > calls - 50;
update licence_activity a set calls = c.calls
from (select licence_id, max(number) as calls from latest_call_homes group by 1) c where c.licence_id = a.licence_id;
drop table call_homes;
drop table call_home_walk;
alter table latest_call_homes rename to call_homes;
alter index latest_call_homes_pkey rename to call_homes_pkey;

-- When a host was last seen, at most a day too early; null for one that the licence is only restricted to. The one that
-- was seen longest ago is replaced.
alter table licence_hosts add column last_seen_at timestamptz(3);
update licence_hosts h set last_seen_at = now()
where not exists (
    select from licence_domains d
    where d.application_id = h.application_id and d.domain = h.host and d.licence_id = h.licence_id
  )
  or exists (select from activations a where a.licence_id = h.licence_id and a.host = h.host);
create index licence_hosts_seen on licence_hosts (licence_id, last_seen_at) where last_seen_at is not null;

-- The history is append-only but for the oldest entries of activations that products freed.
create index licence_history_freed_by_products on licence_history (licence_id, position)
  where type = 'activation_freed' and actor = 'product';
drop trigger append_only on licence_history;
create trigger append_only before update or truncate on licence_history
  for each statement execute function refuse_change();
create trigger entries_stay before delete on licence_history
  for each row when (old.type <> 'activation_freed' or old.actor <> 'product') execute function refuse_change();

-- As before, but for `activations_freed`: entries that the history no longer has were counted, and stay counted.
create or replace function recount_history() returns void language plpgsql as $$
begin
  lock table licence_history in access exclusive mode;
  alter table licence_history drop column xact;
  alter table licence_history add column xact xid8;
  alter table licence_history alter column xact set default pg_current_xact_id();
  create index licence_history_by_xact on licence_history (xact) where xact is not null;
  update application_days set issued = 0, imported = 0, created = 0, suspended = 0, reactivated = 0, revoked = 0,
    expired = 0, retired = 0, downgraded = 0, active_change = 0;
  -- What triggers of earlier releases noted is in the history too.
  update application_day_changes set issued = 0, imported = 0, created = 0, suspended = 0, reactivated = 0,
    revoked = 0, expired = 0, retired = 0, downgraded = 0, active_change = 0, activations_freed = 0;
  insert into application_days as d (application_id, account_id, day, issued, imported, created, suspended,
    reactivated, revoked, expired, retired, downgraded, active_change, activations_new, activations_freed,
    activations_seen)
  select application_id, account_id, day, issued, imported, created, suspended, reactivated, revoked, expired, retired,
    downgraded, active_change, 0, activations_freed, 0
  from days_of_history(true)
  on conflict (application_id, day) do update set issued = excluded.issued, imported = excluded.imported,
    created = excluded.created, suspended = excluded.suspended, reactivated = excluded.reactivated,
    revoked = excluded.revoked, expired = excluded.expired, retired = excluded.retired,
    downgraded = excluded.downgraded, active_change = excluded.active_change,
    activations_freed = greatest(d.activations_freed, excluded.activations_freed);
  update counted_history set seen_by = pg_current_snapshot();
end
$$;
