-- The transaction that wrote an entry; null in those of earlier releases. Entries are counted by it (0015).
-- Readers and writers queue behind whatever waits for this lock: it is waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      alter table licence_history add column xact xid8;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
-- Apart from the column, so that existing entries have none.
alter table licence_history alter column xact set default pg_current_xact_id();
