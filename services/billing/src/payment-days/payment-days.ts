import { invalid } from '@licensing/grpc/errors'
import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { listPaymentDays, addUpChanges } from './payment-day-queries.ts'

export const getPaymentDays: Handler<'getPaymentDays'> = async ({ sql }, request) => {
  checkDay('/from', request.from)
  checkDay('/to', request.to)
  const rows = await listPaymentDays(sql, request)
  return {
    days: rows.map((row) => ({
      day: row.day,
      currency: row.currency,
      count: row.count,
      grossMinor: row.gross_minor,
      refundedMinor: row.refunded_minor,
      feeMinor: row.fee_minor,
    })),
  }
}

function checkDay(pointer: string, day: string): void {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day) || Number.isNaN(Date.parse(day))) {
    throw invalid(pointer, 'must be a day, YYYY-MM-DD')
  }
}

const everyMs = 2_000
// Readers also count the changes that are not added up yet, so the pause does not change results.
const idleMs = 60_000
const maxAtOnce = 20_000

/** Moves noted changes into their days, so that readers have few rows to add up. */
export function startAddingUp({ sql, log }: Pick<BillingDependencies, 'sql' | 'log'>): Loop {
  const addUp = async () => {
    const added = await addUpChanges(sql, maxAtOnce)
    return added === maxAtOnce ? 0 : added === 0 ? idleMs : everyMs
  }
  return startDatabaseLoop('adding up days of payments', log, everyMs, addUp)
}
