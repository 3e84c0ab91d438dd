import { problemOfText, textLimits } from '@licensing/proto/text'
import { NotUnderstood } from '../processor.ts'

// Every field that is read is checked. A field that is missing or has another type means that the event has an unknown
// shape. If Stripe documents that a field may be null, absent or an id instead of an object, that is accepted.

export type Shape = Record<string, unknown>

export function shapeOf(value: unknown, what: string): Shape {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Shape
  throw new NotUnderstood(`${what} is not an object`)
}

export function optionalShape(value: unknown): Shape | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Shape) : undefined
}

/** An id or an enumeration value, which can be stored and indexed. */
export function textIn(object: Shape, field: string): string {
  const value = object[field]
  if (typeof value !== 'string') throw new NotUnderstood(`${field} is not a text`)
  const problem = problemOfText(value, textLimits.processorId)
  if (problem === undefined) return value
  throw new NotUnderstood(`${field} ${problem}`)
}

/** The id in a field that contains an id or the object. */
export function idIn(object: Shape, field: string): string | undefined {
  const value = object[field]
  if (value === null || value === undefined) return undefined
  return typeof value === 'string' ? textIn(object, field) : textIn(shapeOf(value, field), 'id')
}

/** An amount in minor units, or a count. */
export function wholeIn(object: Shape, field: string): number {
  const value = object[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new NotUnderstood(`${field} is not a whole number`)
}

export function optionalWhole(object: Shape, field: string): number | undefined {
  return object[field] === null || object[field] === undefined ? undefined : wholeIn(object, field)
}

// After grace and months are added, a date must still have a year of four digits.
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

/** The meaning of an enumeration value. @throws NotUnderstood if the value is unknown */
export function wordIn<Meaning>(
  object: Shape,
  field: string,
  meanings: Readonly<Record<string, Meaning>>,
): Meaning {
  const word = object[field] === null || object[field] === undefined ? '' : object[field]
  if (typeof word === 'string' && Object.hasOwn(meanings, word)) return meanings[word]!
  throw new NotUnderstood(`${field} is ${JSON.stringify(object[field])}, which is not known here`)
}

/** The items of a list, or of its first page. */
export function listIn(object: Shape, field: string): Shape[] {
  const list = optionalShape(object[field])
  if (!list) return []
  if (!Array.isArray(list['data'])) throw new NotUnderstood(`${field} is not a list`)
  return list['data'].map((item) => shapeOf(item, field))
}

/** Whether a list has more pages. */
export function hasMore(object: Shape, field: string): boolean {
  return optionalShape(object[field])?.['has_more'] === true
}
