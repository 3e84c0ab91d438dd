import { fileURLToPath } from 'node:url'

/**
 * A table with rows of accounts, and how an account's rows are found. A service lists its tables in the order in which they are
 * imported; they are deleted in the opposite order. A test of each service compares its list with its tables.
 */
export interface AccountTable {
  table: string
  /** The column that says whose row it is. */
  column: string
  /** The meaning of the column's values: the account's id, an application's, a value that `owners` finds, or the key of a row of another table. */
  of: 'account' | 'application' | { owners: string } | { table: string; key: string }
  /** Found by this condition instead, on the owner `$1`. Accounts share such rows, so they are never deleted. */
  sharedBy?: string
  /** Values that columns get in the other cell. */
  set?: Record<string, string>
  /** If a row exists already: it stays, or it is replaced, because a trigger has made it or because it was kept. */
  onConflict?: 'keep' | 'replace'
  /**
   * `derived`: triggers make the rows from other tables. `transient`: background work deletes the rows soon; the account moves when
   * it has none.
   */
  is?: 'derived' | 'transient'
  /** Background work writes the table without changing what its rows mean, so its writes are not refused. */
  unfenced?: true
  /** The operator's books: the rows stay in the former cell. */
  kept?: true
}

/** The tables of `packages/` with rows of accounts. */
export const commonTables: readonly AccountTable[] = [
  { table: 'account_quotas', column: 'account_id', of: 'account' },
  { table: 'idempotency_keys', column: 'account_id', of: 'account' },
  { table: 'idempotency_usage', column: 'account_id', of: 'account' },
]

/**
 * Tables of `packages/` that belong to the cell. Events reach their consumers before an account moves, and it does not move while it
 * has dead letters.
 */
export const cellTables = [
  'account_moves',
  'consumer_positions',
  'dead_letters',
  'event_log',
  'event_log_epochs',
  'event_log_growths',
  'event_log_readers',
  'event_log_state',
  'outbox',
]

export const moveMigrations = {
  name: 'moves',
  path: fileURLToPath(new URL('../migrations/moves', import.meta.url)),
}
