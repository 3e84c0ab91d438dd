import { outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/changes/migrations'
import { quotaMigrations } from '@licensing/quotas/migrations'

/** All of this service's database, in the order to apply. */
export const billingMigrations = [
  outboxMigrations,
  idempotencyMigrations,
  quotaMigrations,
  { name: 'billing', path: new URL('../migrations', import.meta.url).pathname },
]
