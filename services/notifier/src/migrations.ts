import { fileURLToPath } from 'node:url'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { moveMigrations } from '@licensing/moves/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'

/** All migrations of this service's database, in order. */
export const notifierMigrations = [
  outboxMigrations,
  consumerMigrations,
  idempotencyMigrations,
  quotaMigrations,
  moveMigrations,
  { name: 'notifier', path: fileURLToPath(new URL('../migrations', import.meta.url)) },
]
