/**
 * How long the `Retry-After` header of an answer asks to wait, in milliseconds; null if it has no valid value. A date is
 * compared with the `Date` of the same answer, because the local clock may be wrong.
 */
export function retryAfterMs(headers: Headers): number | null {
  const header = headers.get('retry-after') ?? ''
  if (/^\d{1,10}$/.test(header)) return Number(header) * 1000
  const wait = dateOf(header) - (dateOf(headers.get('date') ?? '') || Date.now())
  return Number.isNaN(wait) ? null : Math.max(wait, 0)
}

/** Dates of HTTP are in GMT; one of their forms does not say so. */
function dateOf(text: string): number {
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
}
