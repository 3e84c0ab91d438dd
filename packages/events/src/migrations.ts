/** Tables of a service that sends events. */
export const outboxMigrations = {
  name: 'outbox',
  path: new URL('../migrations/outbox', import.meta.url).pathname,
}

/** Tables of a service that consumes events. */
export const consumerMigrations = {
  name: 'consumers',
  path: new URL('../migrations/consumers', import.meta.url).pathname,
}
