import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { makeAccessibleFolder } from './folders.ts'
import { findNatsProgram, type NatsProgram } from './nats-program.ts'
import { startOnPort } from './ports.ts'
import { commandLineOf, identityOf, stopProcess } from './process-table.ts'
import { lastLines, startServerProcess, type ServerProcess } from './server-process.ts'

const USUAL_START_LIMIT_MS = 60_000
// Processes of a killed server end by themselves; on a busy machine this takes many seconds.
const RESTART_TIMEOUT_MS = 60_000

interface NatsOptions {
  /** The data folder of this server. It is created if it is missing; streams in it are kept. */
  dataDir: string
  /**
   * True: a message is on disk at most a second after it was acknowledged. False, for tests: at most two minutes, the
   * server's default. A message survives a crash of the process in both cases.
   */
  durable: boolean
  /** TCP port on 127.0.0.1; by default a free port. */
  port?: number
  /** How long the server may take to answer; by default 60 s. Infinity waits as long as it runs. */
  startLimitMs?: number
  /** Additional configuration of the server, such as accounts. */
  configuration?: string
  /** Cancels the download of the program, with the signal's reason. */
  signal?: AbortSignal
}

/** A NATS server with JetStream. It ends when this process ends, even if this process is killed. */
export interface NatsServer extends AsyncDisposable {
  readonly port: number
  /** Process id of the running server, or of the last one. */
  readonly pid: number
  /** Resolves when the running server ends, by `stop` or by itself, with its exit code or signal as text. */
  readonly ended: Promise<string>
  readonly url: string
  /** Where JetStream keeps its data. */
  readonly storeDir: string
  /** Shuts the server down. Does nothing if it is stopped. */
  stop(): Promise<void>
  /** Ends the server with kill -9, like a crash. */
  kill(): Promise<void>
  /** Starts the server again after `stop`, `kill` or a crash, with the same data and port. */
  start(): Promise<void>
}

/**
 * Starts nats-server with JetStream on a folder and returns when it answers.
 *
 * A server that a killed process left behind on the same folder is stopped first.
 *
 * @throws with the end of the server's log if it is not ready in time, or with the remedy if this machine has no
 *   nats-server
 */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  const dataDir = resolve(options.dataDir)
  const program = await findNatsProgram(options.signal)
  await makeAccessibleFolder(dataDir)
  const name = `licensing-nats-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`
  const launch = (port: number) => launchNats(program, name, dataDir, options, port)
  let { port, started: server } = await startOnPort(options.port, launch)
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
    get url() {
      return `nats://127.0.0.1:${port}`
    },
    storeDir: join(dataDir, 'store'),
    stop: () => server.stop(),
    kill: async () => {
      if (program.kind === 'docker') await removeContainer(name)
      await server.stop({ signal: 'SIGKILL' })
    },
    start: async () => {
      await server.stop()
      ;({ port, started: server } = await startOnPort(port, launch, RESTART_TIMEOUT_MS))
    },
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

async function launchNats(
  program: NatsProgram,
  name: string,
  dataDir: string,
  { durable, configuration = '', startLimitMs = USUAL_START_LIMIT_MS }: NatsOptions,
  port: number,
): Promise<ServerProcess | undefined> {
  const pidFile = join(dataDir, 'nats-server.pid')
  const logFile = join(dataDir, 'nats-server.log')
  const store = join(dataDir, 'store')
  await clearLeftovers(pidFile, dataDir)
  if (program.kind === 'docker') await removeContainer(name)
  const config = join(dataDir, 'nats-server.conf')
  // `always` would sync every message separately: measured, a fifth of the throughput, and it slows PostgreSQL on the same disk.
  const hasSyncInterval = program.kind === 'docker' || program.hasSyncInterval
  await writeFile(
    config,
    (durable && hasSyncInterval ? 'jetstream { sync_interval: 1s }\n' : '') + configuration,
  )
  const flags = ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', store, '-P', pidFile, '-n', name]
  const command =
    program.kind === 'docker'
      ? dockerNats(program.image, name, port, store, config)
      : {
          command: program.path,
          args: [...flags, '-c', config],
        }
  const environment = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' }
  const server = await startServerProcess({ ...command, env: environment, logFile, stopSignal: 'SIGTERM' })
  for (const until = Date.now() + startLimitMs; Date.now() < until; await sleep(10)) {
    if (server.endedBy() !== undefined) {
      const log = await server.written()
      if (/address already in use|port is already allocated/i.test(log)) return undefined
      throw new Error(
        `NATS did not start (${server.endedBy()}); its log ${logFile} ends with:\n${lastLines(log)}`,
      )
    }
    if (await answers(port, name)) return server
  }
  await server.stop()
  throw new Error(`NATS was not ready after ${startLimitMs / 1000} s; see ${logFile}`)
}

async function clearLeftovers(pidFile: string, dataDir: string): Promise<void> {
  const pid = Number(await readFile(pidFile, 'utf8').catch(() => ''))
  if (!Number.isInteger(pid) || pid <= 0) return
  const identity = await identityOf(pid)
  if (identity !== undefined && (await commandLineOf(pid)).includes(dataDir)) {
    await stopProcess(identity, 'SIGTERM', 10_000)
  }
  await rm(pidFile, { force: true })
}

/**
 * A NATS server sends INFO first, with its name and whether JetStream is ready. An open port alone proves nothing: it may
 * belong to a proxy, or to another server because the port was taken.
 */
async function answers(port: number, name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    let greeting = ''
    const settle = (ok: boolean) => {
      socket.destroy()
      resolve(ok)
    }
    socket.setTimeout(1_000, () => settle(false))
    socket.on('data', (chunk: Buffer) => {
      greeting += chunk.toString('utf8')
      if (greeting.includes('\r\n')) settle(isOurs(greeting, name))
    })
    socket.on('error', () => settle(false))
    socket.on('close', () => settle(false))
  })
}

function isOurs(greeting: string, name: string): boolean {
  if (!greeting.startsWith('INFO ')) return false
  const info = JSON.parse(greeting.slice('INFO '.length)) as { server_name: string; jetstream?: boolean }
  return info.server_name === name && info.jetstream === true
}

const run = promisify(execFile)

/** The command that runs nats-server in a container until SIGTERM. Its streams are kept in `store`. */
function dockerNats(
  image: string,
  container: string,
  port: number,
  store: string,
  config: string,
): { command: string; args: string[] } {
  const options = ['--rm', '--name', container, '-p', `127.0.0.1:${port}:4222`, '-v', `${store}:/data`]
  const mountedConfig = ['-v', `${config}:/nats-server.conf:ro`]
  return {
    command: 'docker',
    args: [
      'run',
      ...options,
      ...mountedConfig,
      image,
      '-js',
      '-sd',
      '/data',
      '-n',
      container,
      '-c',
      '/nats-server.conf',
    ],
  }
}

/** Kills the container, if it exists. */
async function removeContainer(container: string): Promise<void> {
  await run('docker', ['rm', '-f', container], { timeout: 30_000 }).catch(() => undefined)
}
