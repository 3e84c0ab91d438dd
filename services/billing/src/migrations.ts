import { outboxMigrations } from '@licensing/events/migrations'
import { idempotencyMigrations } from '@licensing/idempotency/migrations'

/** All of this service's database, in the order to apply. */
export const billingMigrations = [
  outboxMigrations,
  idempotencyMigrations,
  { name: 'billing', path: new URL('../migrations', import.meta.url).pathname },
]
