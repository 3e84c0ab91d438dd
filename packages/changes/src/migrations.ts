import { fileURLToPath } from 'node:url'

/** Tables of a service whose calls may have an idempotency key. */
export const idempotencyMigrations = {
  name: 'idempotency',
  path: fileURLToPath(new URL('../migrations/idempotency', import.meta.url)),
}
