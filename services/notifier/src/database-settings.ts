/** Settings of PostgreSQL for every session of the notifier. */
export const sessionSettings = {
  // Batches and tables differ in size by orders of magnitude, so a plan made for an empty table must not be reused.
  plan_cache_mode: 'force_custom_plan',
  // If a process is suspended, its locks end no later than its leases.
  idle_in_transaction_session_timeout: '10s',
  // A process may be suspended while it sends a statement. PostgreSQL then waits for the rest, and does not count that as idle.
  transaction_timeout: '30s',
}

/**
 * Settings of the sessions that record attempts. For one attempt, planning that statement takes twice as long as executing it.
 * So it is planned once, with only indexes and nested loops, which stay fast when the tables grow.
 */
export const attemptSettings = {
  ...sessionSettings,
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
}
