import { startOwnNats } from '@licensing/test-support/nats'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { NatsContainer } from '@testcontainers/nats'
import { PostgreSqlContainer } from '@testcontainers/postgresql'
import { buildThisRelease } from './earlier-release.ts'

/** Whether a container engine answers; `npm test` finds out. */
export const withContainers = process.env['TEST_DOCKER'] === '1'

const how = withContainers
  ? 'on containers: PostgreSQL, NATS and the images of the components'
  : 'on embedded servers, the components as processes'

export interface Servers extends AsyncDisposable {
  /** As a user that may create databases and roles. */
  postgresUrl: string
  natsUrl: string
}

/** PostgreSQL and NATS: of Testcontainers, or embedded ones. From then on components start the same way. */
export async function startServers(): Promise<Servers> {
  process.stdout.write(`integration suite ${how}\n`)
  if (!withContainers) {
    const nats = await startOwnNats()
    return {
      postgresUrl: sharedPostgresUrl(),
      natsUrl: nats.url,
      [Symbol.asyncDispose]: () => nats[Symbol.asyncDispose](),
    }
  }
  process.env['TEST_IMAGES'] = await buildThisRelease(true)
  await using started = new AsyncDisposableStack()
  const postgres = started.adopt(
    await new PostgreSqlContainer('postgres:17-alpine').withCommand(['postgres', '-c', 'fsync=off']).start(),
    async (container) => void (await container.stop()),
  )
  const nats = started.adopt(
    await new NatsContainer('nats:2.10-alpine').withJetStream().start(),
    async (container) => void (await container.stop()),
  )
  const { user, pass } = nats.getConnectionOptions()
  const running = started.move()
  return {
    postgresUrl: postgres.getConnectionUri(),
    natsUrl: `nats://${user}:${pass}@${nats.getHost()}:${nats.getMappedPort(4222)}`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
