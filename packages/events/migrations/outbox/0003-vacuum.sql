-- A queue: empty most of the time, large after a burst. It is read by its indexes alone, so statistics of it are not
-- needed: with 100,000 events gathering them takes 0.2 s of a core, and nearly all that PostgreSQL reads for it is
-- payload. Dead rows are removed steadily rather than fast. Cutting the end of the file off would lock out everyone.
alter table outbox set (
  autovacuum_analyze_threshold = 2147483647,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay = 10,
  vacuum_truncate = off
);
