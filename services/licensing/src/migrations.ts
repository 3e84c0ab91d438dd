import { fileURLToPath } from 'node:url'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { moveMigrations } from '@licensing/moves/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'

/** All migrations of this service's database, in the order in which they are applied. */
export const licensingMigrations = [
  outboxMigrations,
  consumerMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'licensing', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]
