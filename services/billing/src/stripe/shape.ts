import { NotUnderstood } from '../processors/processor.ts'

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

export function textIn(object: Shape, field: string): string {
  const value = object[field]
  if (typeof value === 'string' && value !== '') return value
  throw new NotUnderstood(`${field} is not a text`)
}

/** An id, or the object that it is of. */
export function idIn(object: Shape, field: string): string | undefined {
  const value = object[field]
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  return textIn(shapeOf(value, field), 'id')
}

/** Minor units, counts and Unix times. */
export function wholeIn(object: Shape, field: string): number {
  const value = object[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new NotUnderstood(`${field} is not a whole number`)
}

export function optionalWhole(object: Shape, field: string): number | undefined {
  return object[field] === null || object[field] === undefined ? undefined : wholeIn(object, field)
}

/** Unix seconds as milliseconds. */
export function timeIn(object: Shape, field: string): number {
  return wholeIn(object, field) * 1000
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
