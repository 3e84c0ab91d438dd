-- What replicas of releases before 0005 needed beside later ones; the release before this one does not. The columns stay
-- for that one.
-- A backup may be reading: the locks are waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      drop trigger keep_new_for_recording on processor_events;
      drop trigger keep_for_recording on processor_events;
      alter table sale_events alter column sent_as_purchase set default true;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
drop function keep_for_recording();
