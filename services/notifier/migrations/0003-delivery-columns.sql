alter table deliveries
  -- What the event is about; null where that is no licence, and in rows of earlier releases.
  add column licence_id text collate "C",
  -- The attempt that delivered it, where the schedule made that attempt.
  add column delivered_attempt integer;
