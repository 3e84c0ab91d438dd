import { setClockOffset } from '@licensing/process/clock'
import type { Health } from '@licensing/process/health'
import type { Logger } from '@licensing/process/log'
import { retry } from '@licensing/process/retry'
import { isSilent, oneConnection } from './connect.ts'
import type { Database } from './connect.ts'
import { startDatabaseLoop } from './database-loop.ts'
import { isDatabaseUnavailable, isSetupProblem } from './problems.ts'

interface PrepareOptions {
  sql: Database
  /** Other pools of the process, which are watched too. */
  otherPools?: Database[]
  health: Health
  log: Logger
  /** Names the current step of the start. */
  step: (name: string) => void
  stopping: AbortSignal
}

const retryMs = 250
const probeTimeoutMs = 2_000
const followClockMs = 10_000

/**
 * Waits for the database and runs `work`, which creates what the database must contain before the process serves, such as
 * its tables. If the database becomes unavailable meanwhile, `work` runs again from its start. An outage is logged once,
 * however long it lasts. The probe `database` fails until `work` is done. The process counts as alive unless all connections
 * of a pool are silent. From then on the process follows the database's clock.
 *
 * @throws every error that is not an outage, such as a wrong password
 * @example await prepareDatabase({ sql, health, log, step, stopping }, () => migrate(sql, folders, step))
 */
export async function prepareDatabase(
  { sql, otherPools = [], health, log, step, stopping }: PrepareOptions,
  work: () => Promise<unknown>,
): Promise<void> {
  let problem: string | null = 'is not prepared yet'
  // The probe has its own connection, so that it passes while all connections of the pool are in use.
  const probing = oneConnection(sql, { statement_timeout: String(probeTimeoutMs) })
  stopping.addEventListener('abort', () => void probing.end({ timeout: 1 }))
  health.add('database', async () => {
    if (problem !== null) throw new Error(problem)
    await probing`select 1`
  })
  health.aliveUnless(() => ([sql, ...otherPools].some(isSilent) ? 'the database does not answer' : null))
  step('database')
  let isWaiting = false
  const prepare = async () => {
    await followClock(sql, log)
    await work()
  }
  const isRetried = (error: unknown) => {
    if (stopping.aborted || isSetupProblem(error) || !isDatabaseUnavailable(error)) return false
    problem = `is unavailable: ${error instanceof Error ? error.message : String(error)}`
    if (!isWaiting) log.warn({ err: error }, 'start waits for the database, which is unavailable')
    isWaiting = true
    step('waiting for the database')
    return true
  }
  await retry(prepare, { firstMs: retryMs, maxMs: retryMs, isRetried, signal: stopping })
  if (isWaiting) log.info('the database is available, start goes on')
  problem = null
  if (stopping.aborted) return
  const clock = startDatabaseLoop('clock', log, followClockMs, () => followClock(probing, log))
  stopping.addEventListener('abort', () => void clock.stop())
}

/** Compares the clock of this machine with the database's, and uses the database's if they differ by seconds. */
export async function followClock(sql: Database, log: Logger): Promise<void> {
  const askedAt = Date.now()
  const [row] = await sql<
    { ms: number }[]
  >`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`
  const offsetMs = row!.ms - (askedAt + Date.now()) / 2
  if (setClockOffset(offsetMs)) {
    log.warn(
      { offset_seconds: Math.round(offsetMs / 1000) },
      'the clock of this machine was compared with the database’s: above 5 seconds the database’s time is used',
    )
  }
}
