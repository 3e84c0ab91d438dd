import { problemOfText, textLimits } from '@licensing/proto/text'
import { NotUnderstood } from '../processor.ts'

// What is read of an event is checked: a field that is missing or of another kind means another shape than the one
// that this was written for. Where Stripe says that a field may be null, absent or an id instead of an object, it may.

export type Shape = Record<string, unknown>

export function shapeOf(value: unknown, what: string): Shape {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Shape
  throw new NotUnderstood(`${what} is not an object`)
}

export function optionalShape(value: unknown): Shape | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Shape) : undefined
}

/** An id or a word: a text that can be stored and indexed. */
export function textIn(object: Shape, field: string): string {
  const value = object[field]
  if (typeof value !== 'string') throw new NotUnderstood(`${field} is not a text`)
  const problem = problemOfText(value, textLimits.processorId)
  if (problem === undefined) return value
  throw new NotUnderstood(`${field} ${problem}`)
}

/** An id, or the object that it is of. */
export function idIn(object: Shape, field: string): string | undefined {
  const value = object[field]
  if (value === null || value === undefined) return undefined
  return typeof value === 'string' ? textIn(object, field) : textIn(shapeOf(value, field), 'id')
}

/** Minor units and counts. */
export function wholeIn(object: Shape, field: string): number {
  const value = object[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new NotUnderstood(`${field} is not a whole number`)
}

export function optionalWhole(object: Shape, field: string): number | undefined {
  return object[field] === null || object[field] === undefined ? undefined : wholeIn(object, field)
}

// A date with grace and months added still has a year of four digits, as texts of dates and PostgreSQL read it.
const latestTime = Date.UTC(3000, 0)

/** Unix seconds as milliseconds. */
export function timeIn(object: Shape, field: string): number {
  const ms = wholeIn(object, field) * 1000
  if (ms >= 0 && ms < latestTime) return ms
  throw new NotUnderstood(`${field} is not a time between the years 1970 and 3000`)
}

export function optionalTime(object: Shape, field: string): number | undefined {
  return object[field] === null || object[field] === undefined ? undefined : timeIn(object, field)
}

/** A word of an enumeration; one that is not in the table is not guessed at. */
export function wordIn<Meaning>(
  object: Shape,
  field: string,
  meanings: Readonly<Record<string, Meaning>>,
): Meaning {
  const word = object[field] === null || object[field] === undefined ? '' : object[field]
  if (typeof word === 'string' && Object.hasOwn(meanings, word)) return meanings[word]!
  throw new NotUnderstood(`${field} is ${JSON.stringify(object[field])}, which is not known here`)
}

/** The data of a list, whether or not there are more pages of it. */
export function listIn(object: Shape, field: string): Shape[] {
  const list = optionalShape(object[field])
  if (!list) return []
  if (!Array.isArray(list['data'])) throw new NotUnderstood(`${field} is not a list`)
  return list['data'].map((item) => shapeOf(item, field))
}

/** Whether a list goes on after the page that an object holds. */
export function hasMore(object: Shape, field: string): boolean {
  return optionalShape(object[field])?.['has_more'] === true
}
