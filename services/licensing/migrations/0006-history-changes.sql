-- What an entry of type `changed` changed: {<field>: {"from": …, "to": …}}; null on every other type.
-- Readers and writers queue behind whoever waits for this lock: it is waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      alter table licence_history add column changes jsonb;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
