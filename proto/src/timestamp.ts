/** The message for a text that is not a timestamp. */
export const notTimestamp = 'must be an ISO 8601 timestamp such as 2027-01-31T00:00:00.000Z'

const pattern =
  /^(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))$/

// The range of google.protobuf.Timestamp.
const firstMs = Date.parse('0001-01-01T00:00:00Z')
const lastMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** Milliseconds since the epoch of an ISO 8601 timestamp with `Z` or an offset; undefined for any other text. */
export function parseTimestamp(text: string): number | undefined {
  const parts = pattern.exec(text)
  if (!parts) return undefined
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHours, offsetMinutes] = parts
  const local = new Date(0)
  local.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  // 31 June does not exist and becomes a day in July.
  if (local.getUTCMonth() !== Number(month) - 1 || local.getUTCDate() !== Number(day)) return undefined
  local.setUTCHours(Number(hour), Number(minute), Number(second), Number(fraction.padEnd(3, '0').slice(0, 3)))
  const offset = sign ? Number(`${sign}1`) * (Number(offsetHours) * 60 + Number(offsetMinutes)) : 0
  const ms = local.getTime() - offset * 60_000
  return ms >= firstMs && ms <= lastMs ? ms : undefined
}
