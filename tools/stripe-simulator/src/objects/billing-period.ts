import type { Price } from './wire.ts'

export type Period = { start: number; end: number }

export function firstPeriod(anchor: number, price: Price): Period {
  return { start: anchor, end: addPeriods(anchor, 1, price) }
}

/** The period after `current`, counted from the anchor: 31 January, 28 February, 31 March. */
export function nextPeriod(anchor: number, current: Period, price: Price): Period {
  for (let count = 1; ; count += 1) {
    const end = addPeriods(anchor, count, price)
    if (end > current.end) return { start: current.end, end }
  }
}

function addPeriods(anchor: number, count: number, price: Price): number {
  if (price.recurring === null) throw new Error(`price ${price.id} has no billing period`)
  const { interval, interval_count: each } = price.recurring
  const units = count * each
  if (interval === 'day' || interval === 'week')
    return anchor + units * (interval === 'week' ? 7 : 1) * 86_400
  return addMonths(anchor, interval === 'year' ? 12 * units : units)
}

function addMonths(anchor: number, months: number): number {
  const from = new Date(anchor * 1000)
  const to = new Date(from)
  to.setUTCDate(1)
  to.setUTCMonth(from.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), lastDay))
  return Math.floor(to.getTime() / 1000)
}
