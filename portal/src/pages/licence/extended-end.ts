/**
 * Adds months to the end of a licence, or to now if the licence has ended. If the month does not have the day, the result
 * is its last day.
 */
export function extendedEnd(end: string, months: number, now: Date): string {
  const from = new Date(Math.max(Date.parse(end), now.getTime()))
  const to = new Date(from)
  to.setUTCDate(1)
  to.setUTCMonth(to.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), lastDay))
  return to.toISOString()
}
