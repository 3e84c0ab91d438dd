import { startNats, type NatsServer } from '@licensing/local-servers/nats'
import type { NatsUser } from '@licensing/proto/nats-rights'
import { natsPasswordOf, natsTestConfiguration } from './nats-users.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** A NATS server of a test. Its `url` has all rights, for the test itself. */
export interface OwnNats extends NatsServer {
  /** The URL with the user and rights of a service. `host` is the address of a proxy. */
  urlOf(user: NatsUser, host?: string): string
}

/**
 * Starts a NATS server for one test, with the accounts of production. The test can stop, kill and start it. A start takes
 * about 50 ms. Disposing removes its data.
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
