import { readFile, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './ports.ts'
import { commandLineOf, identityOf, stopProcess } from './process-table.ts'
import { lastLines, startServerProcess, type ServerCommand, type ServerProcess } from './server-process.ts'

const usualStartLimitMs = 60_000
// How long to wait for a given port that is in use: the port of a server that has just ended can stay in use.
const portTimeoutMs = 5_000
// Processes of a killed server end by themselves, and use its data until then; on a busy machine this takes many seconds.
const restartTimeoutMs = 60_000
const leftoverGraceMs = 15_000

export interface LocalServerOptions {
  /** The data folder of this server. It is created if it is missing; data in it is kept. */
  dataDir: string
  /** TCP port on 127.0.0.1; by default a free port. */
  port?: number
  /** How long the server may take to answer; by default 60 s. Infinity waits as long as it runs. */
  startLimitMs?: number
}

/** How a kind of server is started. */
interface Description {
  name: string
  /** The file into which the server writes its pid as the first line. */
  pidFile: string
  /** Prepares a start, and returns the command that listens on this port of 127.0.0.1. */
  command(port: number): Promise<ServerCommand>
  /** Whether this server answers, and not another one that has taken the port. */
  isReady(port: number, pid: number): Promise<boolean>
  /** Matches the log of a server that did not start because its port or its data is still in use. */
  inUse: RegExp
  beforeKill?(): Promise<void>
}

/** A server on this machine, with its data in a folder. It ends when this process ends, even if this process is killed. */
export class LocalServer implements AsyncDisposable {
  readonly #options: LocalServerOptions
  readonly #description: Description
  #port = 0
  #running!: ServerProcess

  private constructor(options: LocalServerOptions, description: Description) {
    this.#options = options
    this.#description = description
  }

  /**
   * Returns when the server answers. A server that a killed process left behind on the same folder is stopped first.
   *
   * @throws with the end of the server's log if it is not ready in time
   */
  static async start(options: LocalServerOptions, description: Description): Promise<LocalServer> {
    const server = new LocalServer(options, description)
    await server.#startOn(options.port, options.port === undefined ? restartTimeoutMs : portTimeoutMs)
    return server
  }

  get port(): number {
    return this.#port
  }

  /** Process id of the running server, or of the last one. */
  get pid(): number {
    return this.#running.pid
  }

  /** Resolves when the running server ends, by `stop` or by itself, with its exit code or signal as text. */
  get ended(): Promise<string> {
    return this.#running.ended
  }

  /** Shuts the server down: clients are disconnected. Does nothing if it is stopped. */
  stop(): Promise<void> {
    return this.#running.stop()
  }

  /** Ends the server with kill -9, like a crash. */
  async kill(): Promise<void> {
    await this.#description.beforeKill?.()
    await this.#running.stop({ signal: 'SIGKILL' })
  }

  /** Starts the server again after `stop`, `kill` or a crash, with the same data and port. */
  async start(): Promise<void> {
    await this.stop()
    await this.#startOn(this.#port, restartTimeoutMs)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #startOn(wanted: number | undefined, timeoutMs: number): Promise<void> {
    for (const until = Date.now() + timeoutMs; ; await sleep(250)) {
      const isLast = Date.now() >= until
      this.#port = wanted ?? (await freePort())
      const running = await this.#launch(this.#port)
      if (running !== undefined) {
        this.#running = running
        return
      }
      if (isLast) throw new Error(`port ${this.#port} of 127.0.0.1 is still in use by another process`)
    }
  }

  async #launch(port: number): Promise<ServerProcess | undefined> {
    const { name, pidFile, inUse, command, isReady } = this.#description
    const { dataDir, startLimitMs = usualStartLimitMs } = this.#options
    const given = await command(port)
    await stopLeftover(pidFile, dataDir, given.stopSignal)
    const server = await startServerProcess(given)
    for (const until = Date.now() + startLimitMs; Date.now() < until; await sleep(10)) {
      if (server.endedBy() !== undefined) {
        const log = await server.written()
        if (inUse.test(log)) return undefined
        const end = `its log ${given.logFile} ends with:\n${lastLines(log)}`
        throw new Error(`${name} did not start (${server.endedBy()}); ${end}`)
      }
      if (await isReady(port, server.pid)) return server
    }
    await server.stop()
    throw new Error(`${name} was not ready after ${startLimitMs / 1000} s; see ${given.logFile}`)
  }
}

/** Stops a server that a killed process left running on this folder. */
async function stopLeftover(pidFile: string, dataDir: string, stopSignal: NodeJS.Signals): Promise<void> {
  const [pid] = (await readFile(pidFile, 'utf8').catch(() => '')).split('\n').map(Number)
  const identity = pid ? await identityOf(pid) : undefined
  if (!identity) return
  const isOurs = (await commandLineOf(identity.pid)).includes(dataDir)
  if (isOurs) await stopProcess(identity, stopSignal, leftoverGraceMs)
  // The pid belongs to another process by now. PostgreSQL would mistake that process for a server and refuse to start.
  else await rm(pidFile, { force: true })
}
