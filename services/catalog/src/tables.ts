import { fileURLToPath } from 'node:url'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { commonTables, moveMigrations } from '@licensing/moves/account-tables'
import type { AccountTable } from '@licensing/moves/account-tables'

/** All migrations of this service's database, in the order in which they are applied. */
export const catalogMigrations = [
  outboxMigrations,
  consumerMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'catalog', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]

/** The tables with rows of accounts, for a move to another cell. */
export const accountTables: readonly AccountTable[] = [
  // Only one account of a cell is the demo.
  { table: 'accounts', column: 'id', of: 'account', set: { demo: 'false' } },
  { table: 'alert_email_confirmations', column: 'account_id', of: 'account' },
  { table: 'applications', column: 'account_id', of: 'account' },
  // Creating and revoking a key appends an entry of the audit log, which is refused; the time of its last use may be lost.
  { table: 'api_keys', column: 'account_id', of: 'account', unfenced: true },
  { table: 'members', column: 'account_id', of: 'account' },
  { table: 'entitlement_keys', column: 'application_id', of: 'application' },
  { table: 'entitlement_definitions', column: 'application_id', of: 'application' },
  { table: 'plans', column: 'application_id', of: 'application' },
  { table: 'plan_overrides', column: 'application_id', of: 'application' },
  { table: 'audit_log', column: 'account_id', of: 'account' },
  ...commonTables,
]

/** Tables of the cell. */
export const otherTables = ['used_sign_in_states']
