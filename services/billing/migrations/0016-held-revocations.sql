-- A revocation waits for events that arrived until it was decided, and for purchases of the customer that have not landed.
-- A backup may be reading: the locks are waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      alter table purchase_effects add column decided_at timestamptz(3) not null default now();
      -- `events`: whether the processor lists events that have not arrived.
      alter table processor_questions drop constraint processor_questions_kind_check,
        add constraint processor_questions_kind_check
          check (kind in ('charge', 'invoice', 'subscription', 'records', 'events'));
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
-- Few at any time.
create index purchase_effects_landing on purchase_effects (application_id, external_ref)
  where kind = 'landed' and state = 'waiting';
