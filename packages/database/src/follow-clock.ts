import { setClockOffset } from '@licensing/process/clock'
import type { Logger } from '@licensing/process/log'
import type { Database } from './connect.ts'

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
