/** Settings of PostgreSQL for every session of the notifier. */
export const sessionSettings = {
  // Batches and tables differ in size by orders of magnitude: a plan made for an empty table must not be kept.
  plan_cache_mode: 'force_custom_plan',
  // A process that stands still keeps its locks from the others no longer than its leases.
  idle_in_transaction_session_timeout: '10s',
  // It may stand still while it sends a statement: PostgreSQL waits for the rest, and does not count that as idle.
  transaction_timeout: '30s',
}

/**
 * For the sessions that write results of attempts. Planning that statement each time takes twice as long as executing it for
 * one result. So it is planned once, in the only way that stays right when tables grow: from row to row by indexes.
 */
export const resultSettings = {
  ...sessionSettings,
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
}
