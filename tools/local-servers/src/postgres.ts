import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makePassableFolder } from './folders.ts'
import { startOnPort } from './ports.ts'
import {
  clearLeftovers,
  ensureCluster,
  findPostgresPrograms,
  POSTGRES_ENVIRONMENT,
  postgresAccount,
  postgresSettings,
} from './postgres-cluster.ts'
import { lastLines, startServerProcess, type ServerProcess } from './server-process.ts'

const USUAL_START_LIMIT_MS = 60_000
// What a server that was killed has left behind ends by itself, on a busy machine after many seconds.
const RESTART_PATIENCE_MS = 60_000

interface PostgresOptions {
  /** Folder of this server alone; made when it is missing, data in it is kept. */
  dataDir: string
  /** True: a commit survives a power cut. False is for tests: faster, and only a crash of the process is survived. */
  durable: boolean
  /** TCP port on 127.0.0.1; a free one when absent. */
  port?: number
  /** How long the server may take to answer; 60 s when absent, Infinity: as long as it runs. */
  startLimitMs?: number
}

/** An embedded PostgreSQL that ends with this process, whatever ends it. */
export interface PostgresServer extends AsyncDisposable {
  readonly port: number
  /** Of the server that runs now, or ran last. */
  readonly pid: number
  /** Settles when the running server ends, by `stop` or by itself, with what ended it. */
  readonly ended: Promise<string>
  /** The superuser's URL of a database (`postgres` when absent). */
  url(database?: string): string
  /** Stops it in order: open transactions are rolled back, clients are cut. Does nothing when it is stopped. */
  stop(): Promise<void>
  /** kill -9: what a crash does. */
  kill(): Promise<void>
  /** Starts it again after `stop`, `kill` or a crash: same data, same port. */
  start(): Promise<void>
}

/**
 * Starts PostgreSQL on a folder and returns when it answers.
 *
 * A server that a killed process left behind on the same folder is stopped first.
 *
 * @throws with the end of the server's log when it does not come up in time, or with the remedy when this
 *   machine cannot run it
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const dataDir = resolve(options.dataDir)
  const cluster = join(dataDir, 'cluster')
  const programs = await findPostgresPrograms()
  await makePassableFolder(dataDir)
  const password = await ensureCluster(dataDir, cluster, programs, options.durable)
  const launch = (port: number) => launchPostgres(programs.postgres, dataDir, cluster, port, options)
  // Without a port of its own it waits only for the processes of a killed server.
  const patienceMs = options.port === undefined ? RESTART_PATIENCE_MS : undefined
  let { port, started: server } = await startOnPort(options.port, launch, patienceMs)
  return {
    get port() {
      return port
    },
    get pid() {
      return server.pid
    },
    get ended() {
      return server.ended
    },
    url: (database = 'postgres') =>
      `postgres://postgres:${password}@127.0.0.1:${port}/${encodeURIComponent(database)}`,
    stop: () => server.stop({ signal: 'SIGINT' }),
    kill: () => server.stop({ signal: 'SIGKILL' }),
    start: async () => {
      await server.stop()
      ;({ port, started: server } = await startOnPort(port, launch, RESTART_PATIENCE_MS))
    },
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

async function launchPostgres(
  program: string,
  dataDir: string,
  cluster: string,
  port: number,
  { durable, startLimitMs = USUAL_START_LIMIT_MS }: PostgresOptions,
): Promise<ServerProcess | undefined> {
  await clearLeftovers(cluster)
  const account = await postgresAccount(cluster, program)
  const settings = Object.entries(postgresSettings(durable)).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const [command = '', ...args] = [...account.prefix, program, '-D', cluster, '-p', String(port), ...settings]
  const logFile = join(dataDir, 'postgres.log')
  const server = await startServerProcess({
    command,
    args,
    env: POSTGRES_ENVIRONMENT,
    logFile,
    stopSignal: 'SIGINT',
    user: account.spawnAs,
  })
  for (const until = Date.now() + startLimitMs; Date.now() < until; await sleep(15)) {
    if (server.endedBy() !== undefined) {
      const log = await server.written()
      // The second: processes of a killed server still hold the data; they end within moments.
      if (log.includes('Address already in use')) return undefined
      if (log.includes('pre-existing shared memory block')) return undefined
      throw new Error(
        `PostgreSQL did not start (${server.endedBy()}); its log ${logFile} ends with:\n${lastLines(log)}`,
      )
    }
    if (await isReady(cluster, server.pid)) return server
  }
  await server.stop({ signal: 'SIGQUIT' })
  throw new Error(`PostgreSQL was not ready after ${startLimitMs / 1000} s; see ${logFile}`)
}

/** The server writes its pid into the first line of its lock file, and `ready` into the eighth. */
async function isReady(cluster: string, pid: number): Promise<boolean> {
  const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  return lines[0] === String(pid) && lines[7]?.trim() === 'ready'
}
