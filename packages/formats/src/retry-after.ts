const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

// RFC 9110, section 5.6.7: the usual form, that of RFC 850, and that of C's asctime.
const time = String.raw`(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d):(?<second>[0-5]\d|60)`
const forms = [
  new RegExp(String.raw`^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) ${time} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) ${time} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) ${time} (?<year>\d{4})$`),
]

/**
 * The time of a date in a header of HTTP, in milliseconds since 1970; undefined for any other text.
 *
 * @param nowMs decides the century of a year with two digits
 */
export function parseHttpDate(text: string, nowMs: number): number | undefined {
  const parts = forms.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined)
  if (!parts) return undefined
  const [day, year, hour, minute, second] = ['day', 'year', 'hour', 'minute', 'second'].map((name) =>
    Number(parts[name]),
  ) as [number, number, number, number, number]
  const month = months.indexOf(parts['month']!)
  const ms = Date.UTC(
    parts['year']!.length === 2 ? fullYear(year, nowMs) : year,
    month,
    day,
    hour,
    minute,
    second,
  )
  // 31 June is a day in July.
  return month >= 0 && new Date(ms - second * 1000).getUTCDate() === day ? ms : undefined
}

/** A year with two digits that seems to be more than 50 years ahead is the last year in the past that ends like this. */
function fullYear(digits: number, nowMs: number): number {
  const now = new Date(nowMs).getUTCFullYear()
  const year = now - (now % 100) + digits
  return year > now + 50 ? year - 100 : year
}

/**
 * How long a `Retry-After` header asks to wait, in milliseconds; null if it has no valid value.
 *
 * @param nowMs the local time
 * @param sentAt the `Date` header of the same answer. A date is compared with it, because the local clock may be wrong
 * @example retryAfterMs('120', Date.now()) // 120_000
 */
export function retryAfterMs(
  header: string | null,
  nowMs: number,
  sentAt: string | null = null,
): number | null {
  if (header === null) return null
  if (/^\d{1,10}$/.test(header)) return Number(header) * 1000
  const until = parseHttpDate(header, nowMs)
  const from = (sentAt === null ? undefined : parseHttpDate(sentAt, nowMs)) ?? nowMs
  return until === undefined ? null : Math.max(until - from, 0)
}
