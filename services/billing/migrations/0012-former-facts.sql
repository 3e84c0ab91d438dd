-- What was recorded before 0005, and copied by 0006. The release before this one neither reads nor writes it.
-- A backup may be reading: the lock is waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      drop table if exists charge_facts, refund_facts, dispute_facts, invoice_facts, invoice_failures, subscription_ends;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
