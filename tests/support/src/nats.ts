import { startNats, type NatsServer } from '@licensing/local-servers/nats'
import type { NatsUser } from '@licensing/proto/nats-rights'
import { natsPasswordOf, natsTestConfiguration } from './nats-users.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** Its `url` is for tests, which may do everything with the streams. */
export interface OwnNats extends NatsServer {
  /** For a service: with its own user, which may do what that service needs. `host` is where a proxy is. */
  urlOf(user: NatsUser, host?: string): string
}

/**
 * A NATS server for one test, with the accounts that it has in production: its streams are its own, and it can be
 * stopped, killed and started again. Up in about 50 ms; disposing of it removes its data.
 */
export async function startOwnNats(): Promise<OwnNats> {
  const folder = await makeTemporaryFolder()
  const configuration = natsTestConfiguration
  const server = await startNats({ dataDir: folder.path, durable: false, configuration })
  return Object.defineProperties(server, {
    urlOf: {
      value: (user: NatsUser, host = `127.0.0.1:${server.port}`) =>
        `nats://${user}:${natsPasswordOf(user)}@${host}`,
    },
    [Symbol.asyncDispose]: {
      value: async () => {
        await server.stop()
        await folder[Symbol.asyncDispose]()
      },
    },
  }) as OwnNats
}
