-- What an event of the inbox costs: its triggers run for replicas of the release before 0005 alone, which claim by next_at
-- and handle without recorded_at.
alter table processor_events alter column next_at set default 'infinity';
drop trigger keep_for_recording on processor_events;
create trigger keep_new_for_recording before insert on processor_events
  for each row when (new.next_at <> 'infinity') execute function keep_for_recording();
create trigger keep_for_recording before update on processor_events
  for each row when (
    new.next_at <> 'infinity' or old.handled_at is null and new.handled_at is not null and new.recorded_at is null
  ) execute function keep_for_recording();
