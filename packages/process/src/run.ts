import type { Logger } from './log.ts'
import { createLogger } from './log.ts'
import { ConfigError } from './config.ts'
import { Health } from './health.ts'
import { keepHeapSmall } from './heap.ts'
import { startOperationsServer } from './operations-server.ts'
import { StartWatch } from './start-watch.ts'
import type { StartProgress } from './start-watch.ts'
import { startTelemetry } from './telemetry.ts'

/** The parts of a process. `onStop` registers what must be closed; it is closed in reverse order. */
export interface Process extends StartProgress {
  log: Logger
  health: Health
  /** Aborted when the process stops, which may be in the middle of its start. */
  stopping: AbortSignal
  onStop: (name: string, stop: () => Promise<void> | void) => void
}

interface ProcessSettings {
  LOG_LEVEL: string
  START_LIMIT_SECONDS: number
  METRICS_ADDRESS?: { host: string; port: number } | undefined
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined
}

/** Longest time that a stop may take before the process ends anyway, in milliseconds. */
const stopLimitMs = 25_000

/**
 * Runs a service: starts it, "not ready" until that has succeeded, then waits for SIGTERM or SIGINT, reports "not
 * ready", closes everything in reverse order of its opening and exits 0. A start that fails, or makes no progress for
 * START_LIMIT_SECONDS, closes what was opened and exits 1; /healthz fails after half of that time.
 *
 * With `STOP_WITH_PARENT=1` the end of standard input stops it too, so that it never outlives its launcher.
 *
 * @param readSettings reads the configuration; a ConfigError is printed as it is, and the process exits with 2
 */
export async function runProcess<C extends ProcessSettings>(
  name: string,
  readSettings: () => C,
  start: (process: Process, config: C) => Promise<void>,
): Promise<void> {
  keepHeapSmall()
  const config = settingsOrExit(name, readSettings)
  const log = createLogger(name, config.LOG_LEVEL)
  const health = new Health()
  const stops: { name: string; stop: () => Promise<void> | void }[] = []
  const onStop: Process['onStop'] = (what, stop) => stops.push({ name: what, stop })

  const stopping = new AbortController()
  const stop = (reason: string, exitCode: number) => {
    if (stopping.signal.aborted) return
    stopping.abort()
    watch.end()
    void stopAll(log, health, stops, reason).then(() => process.exit(exitCode))
  }
  const watch = watchStart(log, config.START_LIMIT_SECONDS, () => stop('start makes no progress', 1))
  let started = false
  health.add('start', () => {
    if (!started) throw new Error(`has not finished: ${watch.current}`)
  })
  health.aliveUnless(() => watch.problem())
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

  try {
    const telemetry = await startTelemetry(name, config.OTEL_EXPORTER_OTLP_ENDPOINT)
    onStop('telemetry', () => telemetry.stop())
    if (config.METRICS_ADDRESS) {
      const operations = await startOperationsServer(config.METRICS_ADDRESS, health)
      onStop('operations server', () => operations.stop())
    }
    await start({ log, health, onStop, step: watch.step, stopping: stopping.signal }, config)
    if (stopping.signal.aborted) return
    started = true
    watch.end()
    log.info('serving')
  } catch (error) {
    // A stop closes what the start still uses.
    if (stopping.signal.aborted) return
    log.fatal({ err: error }, 'could not start')
    stop('could not start', 1)
  }
}

function watchStart(log: Logger, limitSeconds: number, giveUp: () => void): StartWatch {
  return new StartWatch({
    limitMs: limitSeconds * 1_000,
    slow: (step) => log.warn({ step, seconds: limitSeconds / 2 }, 'start makes no progress'),
    stuck: (step) => {
      log.fatal({ step, seconds: limitSeconds }, 'could not start: no progress')
      giveUp()
    },
  })
}

function settingsOrExit<C>(name: string, readSettings: () => C): C {
  try {
    return readSettings()
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
): Promise<void> {
  log.info({ reason }, 'stopping')
  health.stopping()
  const limit = setTimeout(() => {
    log.error('stop took too long, ending anyway')
    process.exit(1)
  }, stopLimitMs)
  for (const { name, stop } of stops.toReversed()) {
    try {
      await stop()
    } catch (error) {
      log.error({ err: error, part: name }, 'could not be closed cleanly')
    }
  }
  clearTimeout(limit)
  log.info('stopped')
}
