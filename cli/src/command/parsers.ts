import { endOfDay } from '@licensing/csv/key-file'
import { InvalidArgumentError } from 'commander'
import { closest, distance } from 'fastest-levenshtein'
import { UsageError } from './failures.ts'

/** Parsers of arguments and options. They run before a command sends anything. */

/** Surrounding spaces are dropped; an empty text is refused. */
export function text(value: string): string {
  const trimmed = value.trim()
  if (trimmed === '') throw new InvalidArgumentError('It is empty.')
  return trimmed
}

/** Collects the values of an option that may be repeated. */
export const texts = (value: string, previous: readonly string[] = []) => [...previous, text(value)]

export const wholeNumber =
  (min: number, max = Number.MAX_SAFE_INTEGER) =>
  (value: string): number => {
    const number = Number(value)
    if (/^-?\d+$/.test(value) && number >= min && number <= max) return number
    const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It must be a whole number ${range}.`)
  }

/** When something ends: a time with its time zone, or a date, which means the end of that day in UTC. */
export const endTime = (value: string) => readTime(value, { day: endOfDay })

/** When something happened, or the beginning of a period. A date is its first moment in UTC. */
export const sinceTime = (value: string) => readTime(value, { day: (date) => date })

/** The end of a period, which is not part of it. A date is its last day in UTC. */
export const untilTime = (value: string) =>
  readTime(value, { day: (date) => new Date(Date.parse(date) + 86_400_000).toISOString() })

function readTime(value: string, { day }: { day: (date: string) => string }): string {
  const [, date, rest] =
    /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(value) ?? []
  const time =
    date !== undefined && isDay(date) ? new Date(rest === undefined ? day(date) : value) : undefined
  if (time === undefined || Number.isNaN(time.getTime())) {
    throw new InvalidArgumentError('It must be a time like 2027-01-31 or 2027-01-31T12:00:00Z.')
  }
  return time.toISOString()
}

/** A day in UTC. */
export function day(value: string): string {
  if (!isDay(value)) throw new InvalidArgumentError('It must be a day like 2027-01-31.')
  return value
}

/** Whether the day exists: `Date` reads 30 February as 2 March. */
function isDay(value: string): boolean {
  const time = new Date(`${value}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(`${value}T`)
}

/** When something ends, or `none`. Commander takes null for a missing value. */
export const endTimeOrNone = (value: string) => (value === 'none' ? value : endTime(value))

/** `name=value` pairs of an option that may be repeated. */
export function pairs(
  value: string,
  previous: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const at = value.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be NAME=VALUE.')
  return { ...previous, [value.slice(0, at)]: value.slice(at + 1) }
}

/** Names of an option that may be repeated, each with null: a PATCH removes an entry whose value is null. */
export const nulls = (value: string, previous: Readonly<Record<string, null>> = {}) => ({
  ...previous,
  [text(value)]: null,
})

/** All members of a closed set. If the API adds a member, the code does not compile until the member is listed here. */
export const members = <Member extends string>(all: Record<Member, true>) => Object.keys(all) as Member[]

/** A member of a closed set. The error suggests the nearest one. */
export const oneOf =
  <const Member extends string>(members: readonly Member[], what: string) =>
  (value: string): Member => {
    const found = members.find((member) => member === value)
    if (found !== undefined) return found
    const name = value === '' ? '(empty)' : value
    throw new UsageError(
      `unknown ${what}: ${name}${suggestion(value, members)}; known: ${members.join(', ')}`,
    )
  }

/** Like `oneOf`, for an option that may be repeated. */
export const severalOf = <const Member extends string>(members: readonly Member[], what: string) => {
  const one = oneOf(members, what)
  return (value: string, previous: readonly Member[] = []) => [...previous, one(value)]
}

/** Members separated by commas; `*` stands for all. */
export const listOf = <const Member extends string>(members: readonly Member[], what: string) => {
  const one = oneOf(members, what)
  return (value: string): readonly Member[] | '*' =>
    value.trim() === '*' ? '*' : value.split(',').map((member) => one(member.trim()))
}

function suggestion(value: string, members: readonly string[]): string {
  const nearest = closest(value, members)
  return distance(value, nearest) <= Math.max(2, value.length / 3) ? `; did you mean ${nearest}?` : ''
}

/** An http or https URL. The error does not repeat a URL that may contain a password. */
export const webAddress =
  (what: string) =>
  (value: string): URL => {
    const url = URL.canParse(value) ? new URL(value) : undefined
    if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
      const named = value.includes('@') ? '' : `, not ${value}`
      throw new UsageError(`${what} must be an http:// or https:// URL${named}`)
    }
    if (url.username !== '' || url.password !== '') {
      throw new UsageError(`${what} must not contain a user name or password`)
    }
    return url
  }
