import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeAccessibleFolder } from './folders.ts'
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
// Processes of a killed server end by themselves; on a busy machine this takes many seconds.
const RESTART_TIMEOUT_MS = 60_000

interface PostgresOptions {
  /** The data folder of this server. It is created if it is missing; data in it is kept. */
  dataDir: string
  /** True: a commit survives a power cut. False, for tests: faster, and a commit survives only a crash of the process. */
  durable: boolean
  /** TCP port on 127.0.0.1; by default a free port. */
  port?: number
  /** How long the server may take to answer; by default 60 s. Infinity waits as long as it runs. */
  startLimitMs?: number
}

/** An embedded PostgreSQL. It ends when this process ends, even if this process is killed. */
export interface PostgresServer extends AsyncDisposable {
  readonly port: number
  /** Process id of the running server, or of the last one. */
  readonly pid: number
  /** Resolves when the running server ends, by `stop` or by itself, with its exit code or signal as text. */
  readonly ended: Promise<string>
  /** The superuser's URL of a database, by default `postgres`. */
  url(database?: string): string
  /** Shuts the server down: open transactions are rolled back, clients are disconnected. Does nothing if it is stopped. */
  stop(): Promise<void>
  /** Ends the server with kill -9, like a crash. */
  kill(): Promise<void>
  /** Starts the server again after `stop`, `kill` or a crash, with the same data and port. */
  start(): Promise<void>
}

/**
 * Starts PostgreSQL on a folder and returns when it answers.
 *
 * A server that a killed process left behind on the same folder is stopped first.
 *
 * @throws with the end of the server's log if it is not ready in time, or with the remedy if this machine cannot run it
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const dataDir = resolve(options.dataDir)
  const cluster = join(dataDir, 'cluster')
  const programs = await findPostgresPrograms()
  await makeAccessibleFolder(dataDir)
  const password = await ensureCluster(dataDir, cluster, programs, options.durable)
  const launch = (port: number) => launchPostgres(programs.postgres, dataDir, cluster, port, options)
  // Without a fixed port, it only has to wait for the processes of a killed server.
  const timeoutMs = options.port === undefined ? RESTART_TIMEOUT_MS : undefined
  let { port, started: server } = await startOnPort(options.port, launch, timeoutMs)
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
      ;({ port, started: server } = await startOnPort(port, launch, RESTART_TIMEOUT_MS))
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
      // The second message: processes of a killed server still hold the data. They end within moments.
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
