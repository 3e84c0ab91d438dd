-- Lists of a period are read by the range of ids that it has: an id begins with the time at which its row was
-- recorded. The rows recorded before their own time, or more than an hour after it, have indexes of their own.
-- Writers wait while these are made: about 5 seconds for a million rows.

-- The least id with this prefix of this time, as `idOf` of packages/database makes it.
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

create index payments_ahead on payments (application_id, id)
  where id < least_id('pay', coalesce(charged_at, paid_at), -300000);
create index payments_late on payments (application_id, id)
  where id >= least_id('pay', coalesce(charged_at, paid_at), 3600000);
create index refunds_ahead on refunds (application_id, id) where id < least_id('rfd', occurred_at, -300000);
create index refunds_late on refunds (application_id, id) where id >= least_id('rfd', occurred_at, 3600000);
create index sale_events_ahead on sale_events (application_id, id) where id < least_id('sale', occurred_at, -300000);
create index sale_events_late on sale_events (application_id, id) where id >= least_id('sale', occurred_at, 3600000);
