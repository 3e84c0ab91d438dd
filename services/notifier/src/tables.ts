import { fileURLToPath } from 'node:url'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { commonTables, moveMigrations } from '@licensing/moves/account-tables'
import type { AccountTable } from '@licensing/moves/account-tables'

/** All migrations of this service's database, in order. */
export const notifierMigrations = [
  outboxMigrations,
  consumerMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'notifier', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]

const ofEndpoints = { column: 'endpoint_id', of: { table: 'endpoints', key: 'id' } } as const

/** The tables with rows of accounts, for a move to another cell. */
export const accountTables: readonly AccountTable[] = [
  { table: 'endpoints', column: 'application_id', of: 'application' },
  { table: 'account_sequences', column: 'account_id', of: 'account' },
  { table: 'events', column: 'account_id', of: 'account' },
  { table: 'deliveries', column: 'application_id', of: 'application' },
  { table: 'waiting_endpoints', ...ofEndpoints, unfenced: true },
  { table: 'attempts', column: 'delivery_id', of: { table: 'deliveries', key: 'id' } },
  { table: 'delivery_counts', column: 'application_id', of: 'application', unfenced: true },
  { table: 'endpoint_health', ...ofEndpoints, unfenced: true },
  { table: 'delivery_count_changes', column: 'account_id', of: 'account', is: 'transient' },
  { table: 'endpoint_health_changes', ...ofEndpoints, is: 'transient' },
  { table: 'alerts', column: 'account_id', of: 'account' },
  { table: 'alert_mailings', column: 'account_id', of: 'account' },
  { table: 'mail_allowances', column: 'key', of: 'account' },
  ...commonTables,
]

/** Statements that find work of the account `$1` that is under way and ends soon: attempts of deliveries. */
export const underWay = ['select from deliveries where claimed_until > clock_timestamp() and account_id = $1']
