import type { NatsUser } from '@licensing/proto/nats-rights'
import { startOwnNats } from '@licensing/test-support/nats'
import { natsPasswordOf, natsTestConfiguration } from '@licensing/test-support/nats-users'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { PostgreSqlContainer } from '@testcontainers/postgresql'
import { GenericContainer, Wait } from 'testcontainers'
import { buildThisRelease } from './releases.ts'

/** Set by `npm run test:compose`; `npm test` starts processes. */
export const withContainers = process.env['TEST_DOCKER'] === '1'

const how = withContainers
  ? 'on containers: PostgreSQL, NATS and the images of the components'
  : 'on embedded servers, the components as processes'

export interface Servers extends AsyncDisposable {
  /** URL with a user that may create databases and roles. */
  postgresUrl: string
  /** URL with all rights. */
  natsUrl: string
  /** URL with the rights of a service. */
  natsUrlOf(user: NatsUser): string
}

/** PostgreSQL as in the compose file: with an init process, because it would recover after a health check that took too long. */
export class PostgresContainer extends PostgreSqlContainer {
  constructor() {
    super('postgres:17-alpine')
    this.hostConfig.Init = true
  }
}

/** Starts PostgreSQL and NATS, with Testcontainers or embedded. */
export async function startServers(): Promise<Servers> {
  process.stdout.write(`integration suite ${how}\n`)
  if (!withContainers) {
    const nats = await startOwnNats()
    return {
      postgresUrl: sharedPostgresUrl(),
      natsUrl: nats.url,
      natsUrlOf: (user) => nats.urlOf(user),
      [Symbol.asyncDispose]: () => nats[Symbol.asyncDispose](),
    }
  }
  process.env['TEST_IMAGES'] = await buildThisRelease(true)
  await using started = new AsyncDisposableStack()
  const postgres = started.adopt(
    await new PostgresContainer().withCommand(['postgres', '-c', 'fsync=off']).start(),
    async (container) => void (await container.stop()),
  )
  const nats = started.adopt(
    await new GenericContainer('nats:2.10-alpine')
      .withExposedPorts(4222)
      .withWaitStrategy(Wait.forLogMessage(/Server is ready/))
      .withCopyContentToContainer([{ content: natsTestConfiguration, target: '/accounts.conf' }])
      .withCommand(['--jetstream', '--config', '/accounts.conf'])
      .start(),
    async (container) => void (await container.stop()),
  )
  const natsUrlOf = (user: string) =>
    `nats://${user}:${natsPasswordOf(user)}@${nats.getHost()}:${nats.getMappedPort(4222)}`
  const running = started.move()
  return {
    postgresUrl: postgres.getConnectionUri(),
    natsUrl: natsUrlOf('operator'),
    natsUrlOf,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
