import { fileURLToPath } from 'node:url'

/** Tables of a service that sends events. */
export const outboxMigrations = {
  name: 'outbox',
  path: fileURLToPath(new URL('../migrations/outbox', import.meta.url)),
}

/** Tables of a service that consumes events. */
export const consumerMigrations = {
  name: 'consumers',
  path: fileURLToPath(new URL('../migrations/consumers', import.meta.url)),
}
