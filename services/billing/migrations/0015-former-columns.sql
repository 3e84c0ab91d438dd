-- Columns and indexes that no query uses. The release before this one neither reads nor writes these columns.
-- A backup may be reading: the locks are waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      alter table processor_events drop column if exists next_at, drop column if exists recorded,
        drop column if exists recorded_at;
      -- With their indexes.
      alter table fulfilments drop column if exists former;
      alter table sale_events drop column if exists sent_as_purchase;
      alter table checkout_sessions drop column if exists suspended_streak, drop column if exists subscription_ended;
      drop index if exists checkout_sessions_licence, checkout_sessions_payment, checkout_sessions_subscription,
        payments_by_ref, refunds_by_payment, refunds_by_ref, sale_events_licence;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
