import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
    natsUrl: string
  }
}

/** URL of the test run's PostgreSQL, with a user that may create databases and roles. */
export function sharedPostgresUrl(): string {
  return inject('postgresUrl')
}

/** URL of the test run's NATS server, with JetStream. All tests share its streams, so use unique names. */
export function sharedNatsUrl(): string {
  return inject('natsUrl')
}
