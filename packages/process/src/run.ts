import type { Logger } from './log.ts'
import { createLogger } from './log.ts'
import { ConfigError } from './config.ts'
import { Health } from './health.ts'
import { keepHeapSmall } from './heap.ts'
import { startOperationsServer } from './operations-server.ts'
import { startTelemetry } from './telemetry.ts'

/** The parameters of a start. `onStop` registers what must be closed when the process stops; it is closed in reverse order. */
export interface Process {
  log: Logger
  health: Health
  /** Aborted when the process stops, which can be during its start. */
  stopping: AbortSignal
  onStop: (name: string, stop: () => Promise<void> | void) => void
  /** Sets the current step of the start, which /readyz names. */
  step: (name: string) => void
}

interface ProcessSettings {
  LOG_LEVEL: string
  METRICS_ADDRESS?: { host: string; port: number } | undefined
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined
}

/** A service, the gateway or another program. */
export interface Program {
  name: string
  /**
   * Runs it alone in this process until SIGTERM or SIGINT. It is ready from the end of its start until it stops. A stop
   * closes everything in reverse order and exits with 0. If the start fails, it closes what was opened and exits with 1. If the
   * environment is invalid, it prints the invalid variables and exits with 2.
   *
   * With `STOP_WITH_PARENT=1` it also stops at the end of standard input, so that it does not run longer than the process
   * that started it.
   */
  run(): void
  /**
   * Starts it in a process that also runs other programs.
   *
   * @throws ConfigError
   */
  launch(options: LaunchOptions): Launched
}

export interface LaunchOptions {
  env: Record<string, string | undefined>
  /** The file for its log. */
  logFile: string
  /** Called once if the start fails. The log has the cause. */
  failed: (reason: string) => void
}

/** A program that was started. */
export interface Launched {
  health: Pick<Health, 'check'>
  /** Closes everything in reverse order of its opening. @returns false if that took too long */
  stop(reason: string): Promise<boolean>
}

let isShared = false

/** Whether this process runs several programs. */
export function sharesProcess(): boolean {
  return isShared
}

/** Longest time that a stop may take before the process ends anyway, in milliseconds. */
const stopLimitMs = 25_000

type Start<C> = (process: Process, config: C) => Promise<void>

/**
 * @param readSettings reads the configuration; throws a ConfigError if it is invalid
 * @example export const program = defineProgram('catalog', (env) => readConfig(catalogConfig, env), async (…) => {…})
 */
export function defineProgram<C extends ProcessSettings>(
  name: string,
  readSettings: (env: Record<string, string | undefined>) => C,
  start: Start<C>,
): Program {
  return {
    name,
    run: () => runAlone(name, settingsOrExit(name, readSettings), start),
    launch({ env, logFile, failed }) {
      const config = readSettings(env)
      isShared = true
      return launch(name, createLogger(name, config.LOG_LEVEL, logFile), config, start, failed)
    },
  }
}

function runAlone<C extends ProcessSettings>(name: string, config: C, start: Start<C>): void {
  const log = createLogger(name, config.LOG_LEVEL)
  const stop = (reason: string, exitCode: number) =>
    void launched.stop(reason).then((isClean) => process.exit(isClean ? exitCode : 1))
  const launched = launch(name, log, config, start, (reason) => stop(reason, 1))
  process.on('SIGTERM', () => stop('SIGTERM', 0))
  process.on('SIGINT', () => stop('SIGINT', 0))
  process.on('unhandledRejection', (error) => {
    log.fatal({ err: error }, 'unhandled rejection')
    stop('unhandled rejection', 1)
  })
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception')
    stop('uncaught exception', 1)
  })
  if (process.env.STOP_WITH_PARENT === '1') {
    process.stdin.on('end', () => stop('parent gone', 0)).on('error', () => stop('parent gone', 0))
    process.stdin.resume()
  }
}

function launch<C extends ProcessSettings>(
  name: string,
  log: Logger,
  config: C,
  start: Start<C>,
  failed: (reason: string) => void,
): Launched {
  keepHeapSmall()
  const health = new Health()
  const stops: { name: string; stop: () => Promise<void> | void }[] = []
  const onStop: Process['onStop'] = (what, stop) => stops.push({ name: what, stop })
  const stopping = new AbortController()
  let stopped: Promise<boolean> | undefined
  const stop = (reason: string) => {
    stopping.abort()
    return (stopped ??= stopAll(log, health, stops, reason))
  }
  let current = 'start'
  const step = (what: string) => {
    current = what
  }
  let started = false
  health.add('start', () => {
    if (!started) throw new Error(`has not finished: ${current}`)
  })
  const begin = async () => {
    const telemetry = await startTelemetry(name, config.OTEL_EXPORTER_OTLP_ENDPOINT)
    onStop('telemetry', () => telemetry.stop())
    if (config.METRICS_ADDRESS) {
      const operations = await startOperationsServer(config.METRICS_ADDRESS, health)
      onStop('operations server', () => operations.stop())
    }
    await start({ log, health, onStop, step, stopping: stopping.signal }, config)
    if (stopping.signal.aborted) return
    started = true
    log.info('serving')
  }
  begin().catch((error: unknown) => {
    // During a stop the start fails because what it uses is closed.
    if (stopping.signal.aborted) return
    log.fatal({ err: error }, 'could not start')
    failed('could not start')
  })
  return { health, stop }
}

function settingsOrExit<C>(name: string, readSettings: (env: Record<string, string | undefined>) => C): C {
  try {
    return readSettings(process.env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${name}: ${error.message}\n`)
    process.exit(2)
  }
}

async function stopAll(
  log: Logger,
  health: Health,
  stops: { name: string; stop: () => Promise<void> | void }[],
  reason: string,
): Promise<boolean> {
  log.info({ reason }, 'stopping')
  health.stopping()
  const closeAll = async () => {
    for (const { name, stop } of stops.toReversed()) {
      try {
        await stop()
      } catch (error) {
        log.error({ err: error, part: name }, 'could not be closed cleanly')
      }
    }
    return true
  }
  const late = Promise.withResolvers<boolean>()
  const limit = setTimeout(() => late.resolve(false), stopLimitMs)
  const isClean = await Promise.race([closeAll(), late.promise])
  clearTimeout(limit)
  if (isClean) log.info('stopped')
  else log.error('stop took too long, ending anyway')
  return isClean
}
