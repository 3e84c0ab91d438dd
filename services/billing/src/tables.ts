import { fileURLToPath } from 'node:url'
import { outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { commonTables, moveMigrations } from '@licensing/moves/account-tables'
import type { AccountTable } from '@licensing/moves/account-tables'

/** All migrations of this service's database, in order. */
export const billingMigrations = [
  outboxMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'billing', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]

const merchants = 'select merchant as owner from processor_connections where account_id = $1'
const ofMerchants = { column: 'merchant', of: { owners: merchants } } as const
const purchases = [
  { table: 'checkout_sessions', key: 'id' },
  { table: 'sale_events', key: 'id' },
] as const

/** The tables with rows of accounts, for a move to another cell. */
export const accountTables: readonly AccountTable[] = [
  { table: 'processor_connections', column: 'account_id', of: 'account' },
  { table: 'processor_authorizations', column: 'account_id', of: 'account' },
  { table: 'reconciliations', ...ofMerchants },
  { table: 'prices', column: 'application_id', of: 'application' },
  { table: 'checkout_sessions', column: 'application_id', of: 'application' },
  { table: 'sale_events', column: 'application_id', of: 'application' },
  { table: 'sale_facts', column: 'application_id', of: 'application' },
  // The processor may have sent an event to both cells.
  { table: 'processor_events', ...ofMerchants, onConflict: 'keep' },
  // A merchant may have been connected to other accounts before: its facts are found in both ways.
  { table: 'facts', ...ofMerchants, onConflict: 'keep' },
  ...purchases.map((of): AccountTable => ({ table: 'facts', column: 'session_id', of, onConflict: 'keep' })),
  { table: 'purchase_links', ...ofMerchants },
  ...purchases.flatMap((of): AccountTable[] => [
    { table: 'purchases', column: 'purchase_ref', of },
    { table: 'purchase_effects', column: 'purchase_ref', of },
    { table: 'processor_questions', column: 'purchase_ref', of },
  ]),
  { table: 'open_alerts', column: 'account_id', of: 'account' },
  { table: 'payments', column: 'application_id', of: 'application', onConflict: 'replace', kept: true },
  { table: 'refunds', column: 'application_id', of: 'application' },
  { table: 'fee_entries', column: 'account_id', of: 'account', onConflict: 'keep', kept: true },
  { table: 'fee_periods', column: 'account_id', of: 'account' },
  { table: 'spend_caps', column: 'account_id', of: 'account' },
  { table: 'cap_periods', column: 'account_id', of: 'account' },
  { table: 'fee_refunds', column: 'fee_entry_id', of: { table: 'fee_entries', key: 'id' } },
  { table: 'payment_days', column: 'application_id', of: 'application', unfenced: true },
  { table: 'payment_day_changes', column: 'application_id', of: 'application', is: 'transient' },
  ...commonTables,
]

/** Statements that find work of the account `$1` that is under way and ends soon: effects of all accounts that are sent again. */
export const underWay = ['select from effect_resends where account_id is null or account_id = $1']

/** Tables of the cell. */
export const otherTables = ['licensing_epoch', 'effect_resends']
