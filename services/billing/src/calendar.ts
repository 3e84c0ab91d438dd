/** The last instant that a timestamp of the contracts can hold. */
export const lastDate = new Date(Date.UTC(9999, 11, 31, 23, 59, 59, 999))

/** Until when a payment includes updates; null if its price has no months of updates. */
export function updatesPaid(months: number | null | undefined, paidAt: Date): Date | null {
  return months === null || months === undefined ? null : addMonths(paidAt, months)
}

/** The same time of day after this many calendar months, in UTC; on the last day if the month is shorter. */
export function addMonths(from: Date, months: number): Date {
  const to = new Date(from)
  to.setUTCDate(1)
  to.setUTCMonth(to.getUTCMonth() + months)
  const daysInMonth = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), daysInMonth))
  return to
}
