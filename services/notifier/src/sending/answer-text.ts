const mostBytes = 1024

/** The beginning of an answer's body as text that PostgreSQL keeps: valid UTF-8 of at most 1 KiB without NULs. */
export function excerptOf(chunks: readonly Buffer[]): string | null {
  if (chunks.length === 0) return null
  // `stream` leaves out a character that the limit cut in two, instead of replacing it.
  const text = new TextDecoder()
    .decode(Buffer.concat(chunks, mostBytes), { stream: true })
    .replaceAll('\0', '')
  if (Buffer.byteLength(text) <= mostBytes) return text
  // Replacement characters are longer than the bytes they stand for.
  return new TextDecoder().decode(Buffer.from(text).subarray(0, mostBytes), { stream: true })
}

const longestRetryAfterSeconds = 86_400

/** Seconds from `nowMs` on that a Retry-After header asks for, at most a day; null when it says nothing usable. */
export function retryAfterSeconds(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  const seconds = /^\d{1,10}$/.test(header) ? Number(header) : secondsUntil(header, nowMs)
  return Number.isNaN(seconds) ? null : Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfterSeconds)
}

const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

const secondsUntil = (header: string, nowMs: number) =>
  httpDate.test(header) ? (Date.parse(header) - nowMs) / 1000 : NaN
