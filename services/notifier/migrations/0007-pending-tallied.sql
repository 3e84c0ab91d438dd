-- Pending deliveries are tallied by the statements that write them: the triggers cost 4 % of a delivery. What replicas of
-- earlier releases change is found by a recount every few minutes.
drop trigger tally_pending_of_new on deliveries;
drop trigger tally_pending_of_changed on deliveries;
drop function tally_pending();
-- The attempt after which it was no longer pending.
alter table deliveries add column settled_attempt integer;
