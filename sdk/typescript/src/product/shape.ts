/** Checks of values from outside. */

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string')
}

export function isNullOr<T>(check: (value: unknown) => value is T) {
  return (value: unknown): value is T | null => value === null || check(value)
}

export function isString(value: unknown): value is string {
  return typeof value === 'string'
}

/** A whole number from 0. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

/** An ISO 8601 timestamp. */
export function isTimestamp(value: unknown): value is string {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value))
}

/** Seconds since 1970 UTC, within the range of `Date`. */
export function isUnixTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e12
}
