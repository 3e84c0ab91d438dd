import { outboxMigrations } from '@licensing/events/migrations'

/** All of this service's database, in the order to apply. */
export const billingMigrations = [
  outboxMigrations,
  { name: 'billing', path: new URL('../migrations', import.meta.url).pathname },
]
