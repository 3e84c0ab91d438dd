import { join } from 'node:path'
import type { DataFolder } from './data-folder.ts'
import { keepRunning } from './keep-running.ts'
import { startNats, type NatsServer } from '@licensing/local-servers/nats'
import { startPostgres, type PostgresServer } from '@licensing/local-servers/postgres'
import type { StartContext } from './programs.ts'
import type { StartSettings } from './start-settings.ts'

/** Addresses of the stack's PostgreSQL, with a user that may create databases, and NATS. */
export interface ServerUrls {
  postgresUrl: string
  natsUrl: string
}

/** The configured servers, or embedded ones that run until `started` is disposed of. */
export async function startServers(
  settings: StartSettings,
  folder: DataFolder,
  started: AsyncDisposableStack,
  { say, waits, signal }: StartContext,
): Promise<ServerUrls> {
  const keep = async (name: string, server: PostgresServer | NatsServer) => {
    const child = {
      name,
      ended: () => server.ended,
      stop: () => server.stop(),
      restart: async () => {
        await server.start()
        await folder.note(name, server.pid)
      },
    }
    started.defer(keepRunning(child, say))
    await folder.note(name, server.pid)
    say(`${name} is up on port ${server.port}`)
  }
  const postgresUrl = async () => {
    if (settings.databaseUrl !== undefined) return settings.databaseUrl
    const options = { dataDir: join(folder.path, 'postgres'), durable: true, startLimitMs: Infinity }
    const server = await waits.during('postgres', startPostgres(options))
    await keep('postgres', server)
    return server.url()
  }
  const natsUrl = async () => {
    if (settings.natsUrl !== undefined) return settings.natsUrl
    const options = { dataDir: join(folder.path, 'nats'), durable: true, startLimitMs: Infinity, signal }
    const server = await waits.during('nats', startNats(options))
    await keep('nats', server)
    return server.url
  }
  const [postgres, nats] = await Promise.allSettled([postgresUrl(), natsUrl()])
  if (postgres.status === 'rejected') throw postgres.reason
  if (nats.status === 'rejected') throw nats.reason
  return { postgresUrl: postgres.value, natsUrl: nats.value }
}
