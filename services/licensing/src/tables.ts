import { fileURLToPath } from 'node:url'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { commonTables, moveMigrations } from '@licensing/moves/account-tables'
import type { AccountTable } from '@licensing/moves/account-tables'

/** All migrations of this service's database, in the order in which they are applied. */
export const licensingMigrations = [
  outboxMigrations,
  consumerMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'licensing', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]

const ofLicences = { column: 'licence_id', of: { table: 'licences', key: 'id' } } as const

/** The tables with rows of accounts, for a move to another cell. */
export const accountTables: readonly AccountTable[] = [
  // Any copy of the other cell's catalog is newer.
  { table: 'plans', column: 'application_id', of: 'application', set: { epoch: '0' } },
  {
    table: 'snapshots',
    column: 'id',
    of: 'application',
    sharedBy: `t.id in (
      select snapshot_id from plans where application_id = $1
      union select snapshot_id from licences where application_id = $1
      union select snapshot_id from purchases where application_id = $1
      union select bought_snapshot_id from purchases where application_id = $1
      union select e.snapshot_id from licences l join purchase_effects e on e.licence_id = l.id where l.application_id = $1
    )`,
    onConflict: 'keep',
  },
  { table: 'plan_archives', column: 'plan_id', of: { table: 'plans', key: 'id' } },
  { table: 'awaited_plans', column: 'account_id', of: 'account' },
  { table: 'licences', column: 'application_id', of: 'application' },
  // A trigger makes the rows; two columns are its sweep's own.
  { table: 'licence_statuses', ...ofLicences, onConflict: 'replace' },
  { table: 'licence_metadata', ...ofLicences, is: 'derived' },
  { table: 'plan_counts', column: 'plan_id', of: { table: 'plans', key: 'id' } },
  { table: 'licence_overrides', ...ofLicences },
  { table: 'licence_history', ...ofLicences },
  { table: 'activations', ...ofLicences },
  { table: 'freed_activations', ...ofLicences },
  { table: 'floating_licences', ...ofLicences },
  { table: 'leases', ...ofLicences },
  { table: 'call_homes', ...ofLicences },
  { table: 'licence_activity', ...ofLicences },
  { table: 'licence_hosts', column: 'application_id', of: 'application' },
  { table: 'trials', column: 'application_id', of: 'application' },
  { table: 'trial_days', column: 'application_id', of: 'application' },
  { table: 'trial_addresses', column: 'application_id', of: 'application' },
  { table: 'revocation_lists', column: 'application_id', of: 'application' },
  { table: 'revocations', column: 'application_id', of: 'application' },
  { table: 'signing_keys', column: 'application_id', of: 'application' },
  { table: 'root_keys', column: 'application_id', of: 'application' },
  { table: 'signed_key_sets', column: 'root_kid', of: { table: 'root_keys', key: 'kid' } },
  { table: 'purchases', column: 'application_id', of: 'application' },
  { table: 'purchase_effects', ...ofLicences },
  { table: 'paid_metadata', ...ofLicences },
  { table: 'provisions', column: 'application_id', of: 'application' },
  { table: 'application_days', column: 'application_id', of: 'application', unfenced: true },
  { table: 'application_day_changes', column: 'application_id', of: 'application', is: 'transient' },
  ...commonTables,
]
