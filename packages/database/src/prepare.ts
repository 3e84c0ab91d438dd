import type { Health } from '@licensing/process/health'
import type { Logger } from '@licensing/process/log'
import { setTimeout as sleep } from 'node:timers/promises'
import { oneConnection } from './connect.ts'
import type { Database } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'

interface PrepareOptions {
  sql: Database
  health: Health
  log: Logger
  /** Reports the progress of the start. */
  step: (name: string) => void
  stopping: AbortSignal
}

const retryMs = 250

/**
 * Waits for the database and runs `work` on it: migrations and what else it has to hold before the process serves. One
 * line is logged while the database is unavailable, however long that is; where it becomes unavailable meanwhile, `work`
 * runs again from its start. The probe `database` queries it only once `work` is done.
 *
 * @throws what does not pass by itself, such as a wrong password
 * @example await prepareDatabase({ sql, health, log, step, stopping }, () => migrate(sql, folders, step))
 */
export async function prepareDatabase(
  { sql, health, log, step, stopping }: PrepareOptions,
  work: () => Promise<unknown>,
): Promise<void> {
  let problem: string | null = 'is not prepared yet'
  // Of its own: a pool whose connections are all in use is busy, and not unavailable.
  const probing = oneConnection(sql)
  stopping.addEventListener('abort', () => void probing.end({ timeout: 1 }))
  health.add('database', async () => {
    if (problem !== null) throw new Error(problem)
    await probing`select 1`
  })
  for (let waiting = false; problem !== null;) {
    step(waiting ? 'waiting for the database' : 'database')
    try {
      await sql`select 1`
      await work()
      if (waiting) log.info('the database is available, start goes on')
      problem = null
    } catch (error) {
      if (stopping.aborted || !isDatabaseUnavailable(error)) throw error
      problem = `is unavailable: ${error instanceof Error ? error.message : String(error)}`
      if (!waiting) log.warn({ err: error }, 'start waits for the database, which is unavailable')
      waiting = true
      await sleep(retryMs, undefined, { signal: stopping })
    }
  }
}
