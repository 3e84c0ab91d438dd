import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeAccessibleFolder } from './folders.ts'
import { LocalServer, type LocalServerOptions } from './local-server.ts'
import {
  ensureCluster,
  findPostgresPrograms,
  POSTGRES_ENVIRONMENT,
  postgresAccount,
  postgresSettings,
} from './postgres-cluster.ts'

interface PostgresOptions extends LocalServerOptions {
  /** True: a commit survives a power cut. False, for tests: faster, and a commit survives only a crash of the process. */
  durable: boolean
  /** Further settings of the server, by name. */
  settings?: Record<string, string>
}

/** An embedded PostgreSQL. When it is stopped, open transactions are rolled back. */
export interface PostgresServer extends LocalServer {
  /** The superuser's URL of a database, by default `postgres`. */
  url(database?: string): string
}

/**
 * Starts PostgreSQL on a folder and returns when it answers.
 *
 * @throws with the end of the server's log if it is not ready in time, or with the remedy if this machine cannot run it
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const dataDir = resolve(options.dataDir)
  const cluster = join(dataDir, 'cluster')
  const pidFile = join(cluster, 'postmaster.pid')
  const programs = await findPostgresPrograms()
  await makeAccessibleFolder(dataDir)
  const password = await ensureCluster(dataDir, cluster, programs, options.durable)
  const settings = Object.entries({
    ...postgresSettings(options.durable),
    ...options.settings,
  }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = await LocalServer.start(
    { ...options, dataDir },
    {
      name: 'PostgreSQL',
      pidFile,
      command: async (port) => {
        const { prefix, spawnAs } = await postgresAccount(cluster, programs.postgres)
        const [command, ...args] = [...prefix, programs.postgres, '-D', cluster, '-p', String(port)]
        return {
          command,
          args: [...args, ...settings],
          env: POSTGRES_ENVIRONMENT,
          logFile: join(dataDir, 'postgres.log'),
          // On SIGTERM, PostgreSQL would wait for its clients.
          stopSignal: 'SIGINT',
          user: spawnAs,
        }
      },
      // The server writes its pid into the first line of this file, and `ready` into the eighth.
      isReady: async (_port, pid) => {
        const lines = (await readFile(pidFile, 'utf8').catch(() => '')).split('\n')
        return lines[0] === String(pid) && lines[7]?.trim() === 'ready'
      },
      // The second message: processes of a killed server still hold the data. They end within moments.
      inUse: /Address already in use|pre-existing shared memory block/,
    },
  )
  const at = `postgres://postgres:${password}@127.0.0.1:${server.port}`
  return Object.assign(server, { url: (name = 'postgres') => `${at}/${encodeURIComponent(name)}` })
}
