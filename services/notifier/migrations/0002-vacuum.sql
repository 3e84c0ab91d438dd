-- Every delivery is updated once at least, and its indexes are read from their ends: dead rows must not gather there.
alter table deliveries set (
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05
);
-- Small, and changed all the time.
alter table waiting_endpoints set (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000
);
