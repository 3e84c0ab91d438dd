import { fileURLToPath } from 'node:url'
import { outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { moveMigrations } from '@licensing/moves/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'

/** All migrations of this service's database, in order. */
export const billingMigrations = [
  outboxMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'billing', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]
