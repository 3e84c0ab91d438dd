import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { makeAccessibleFolder } from './folders.ts'
import { LocalServer, type LocalServerOptions } from './local-server.ts'
import { findNatsProgram } from './nats-program.ts'

interface NatsOptions extends LocalServerOptions {
  /**
   * True: a message is on disk at most a second after it was acknowledged. False, for tests: at most two minutes, the
   * server's default. A message survives a crash of the process in both cases.
   */
  durable: boolean
  /** Additional configuration of the server, such as accounts. */
  configuration?: string
  /** Cancels the download of the program, with the signal's reason. */
  signal?: AbortSignal
}

/** A NATS server with JetStream. */
export interface NatsServer extends LocalServer {
  readonly url: string
  /** Where JetStream keeps its data. */
  readonly storeDir: string
}

/**
 * Starts nats-server with JetStream on a folder and returns when it answers.
 *
 * @throws with the end of the server's log if it is not ready in time, or with the remedy if this machine has no
 *   nats-server
 */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  const dataDir = resolve(options.dataDir)
  const program = await findNatsProgram(options.signal)
  await makeAccessibleFolder(dataDir)
  const name = `licensing-nats-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`
  const storeDir = join(dataDir, 'store')
  const config = join(dataDir, 'nats-server.conf')
  const pidFile = join(dataDir, 'nats-server.pid')
  // `always` would sync every message separately: measured, a fifth of the throughput, and it slows PostgreSQL on the same disk.
  const sync = options.durable && program.hasSyncInterval ? 'jetstream { sync_interval: 1s }\n' : ''
  await writeFile(config, sync + (options.configuration ?? ''))
  const inContainer = program.kind === 'docker'
  const removeContainer = async () => {
    if (inContainer) await run('docker', ['rm', '-f', name], { timeout: 30_000 }).catch(() => undefined)
  }
  const server = await LocalServer.start(
    { ...options, dataDir },
    {
      name: 'NATS',
      pidFile,
      command: async (port) => {
        await removeContainer()
        const jetStream = ['-n', name, '-js']
        const published = [
          '-p',
          `127.0.0.1:${port}:4222`,
          '-v',
          `${storeDir}:/data`,
          '-v',
          `${config}:/nats.conf:ro`,
        ]
        const container = [
          'run',
          '--rm',
          '--name',
          name,
          ...published,
          inContainer ? program.image : '',
          ...jetStream,
        ]
        const own = [
          '-a',
          '127.0.0.1',
          '-p',
          String(port),
          '-P',
          pidFile,
          ...jetStream,
          '-sd',
          storeDir,
          '-c',
          config,
        ]
        return {
          command: inContainer ? 'docker' : program.path,
          args: inContainer ? [...container, '-sd', '/data', '-c', '/nats.conf'] : own,
          env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' },
          logFile: join(dataDir, 'nats-server.log'),
          stopSignal: 'SIGTERM',
        }
      },
      isReady: (port) => answers(port, name),
      inUse: /address already in use|port is already allocated/i,
      beforeKill: removeContainer,
    },
  )
  return Object.assign(server, { url: `nats://127.0.0.1:${server.port}`, storeDir })
}

const run = promisify(execFile)

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
