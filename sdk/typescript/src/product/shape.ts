/** Checks of values from outside. */

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isString(value: unknown): value is string {
  return typeof value === 'string'
}

export function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isString)
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}

/** A whole number from 0. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

/** Seconds since 1970 UTC, within the range of `Date`. */
export function isUnixTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e12
}

const iso = /^((?:\d{4}|[+-]\d{6})-\d\d-\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/

/** The milliseconds of an ISO 8601 time, in UTC if it names no zone; NaN for any other text. */
export function readTimestamp(text: string): number {
  const [, day = '', time = '', zone] = iso.exec(text) ?? []
  const start = Date.parse(day)
  // JavaScript takes the 30th of February for a day in March, and a time without a zone for local time.
  if (new Date(start).getUTCDate() !== Number(day.slice(-2))) return NaN
  return Date.parse(`${day}${time}${time && !zone ? 'Z' : ''}`)
}

/** An ISO 8601 timestamp. */
export function isTimestamp(value: unknown): value is string {
  return isString(value) && !Number.isNaN(readTimestamp(value))
}

export type Check<T> = (value: unknown) => value is T

export function isNullOr<T>(check: Check<T>): Check<T | null> {
  return (value): value is T | null => value === null || check(value)
}

/** The type of the objects whose fields pass these checks. */
export type Checked<Checks> = {
  readonly [Name in keyof Checks]: Checks[Name] extends Check<infer T> ? T : never
}

export function hasFields<Checks extends Record<string, Check<unknown>>>(
  checks: Checks,
): Check<Checked<Checks>> {
  return (value): value is Checked<Checks> =>
    isObject(value) && Object.entries(checks).every(([name, check]) => check(value[name]))
}
