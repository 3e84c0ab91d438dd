import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { messageOf } from '@licensing/grpc/fields'
import { invalid } from '@licensing/grpc/errors'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { ApplicationDaySchema } from '@licensing/proto/licensing'
import type { Handler } from '../dependencies.ts'
import { addUp, listDays } from './day-queries.ts'

export const getApplicationDays: Handler<'getApplicationDays'> = async ({ sql }, request) => {
  checkDay('/from', request.from)
  checkDay('/to', request.to)
  const rows = await listDays(sql, request)
  const before = rows.find(({ day }) => day === null)
  return {
    activeBefore: before?.active_change ?? 0n,
    days: rows.flatMap(({ day, ...counts }) =>
      day === null ? [] : [messageOf(ApplicationDaySchema, { day, ...counts })],
    ),
  }
}

function checkDay(pointer: string, day: string): void {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day) || Number.isNaN(Date.parse(day))) {
    throw invalid(pointer, 'must be a day, YYYY-MM-DD')
  }
}

const everyMs = 2_000
// Readers add up what is not added yet.
const idleMs = 60_000
const maxAtOnce = 20_000

/** Adds new changes to the days regularly, so that a reader has few of them to add up. */
export function startAddingUp({ sql, log }: { sql: Database; log: Logger }): Loop {
  return startDatabaseLoop('counts by day', log, everyMs, async () => {
    const added = await addUp(sql, maxAtOnce)
    return added === maxAtOnce ? 0 : added === 0 ? idleMs : everyMs
  })
}
