import { ServiceError } from '@licensing/grpc/errors'
import type { FieldError } from '@licensing/grpc/errors'
import { z } from 'zod'

// A body of one megabyte can have a hundred thousand errors.
const maxErrors = 100

/**
 * Parses the body or the query of a request with a schema.
 *
 * @throws ServiceError `validation_failed` with a pointer to every invalid field
 */
export function validate<S extends z.ZodType>(
  schema: S,
  value: unknown,
  part: 'body' | 'query',
): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const names = schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
  const errors = result.error.issues
    .flatMap((issue) => fieldErrors(issue, value, part, names))
    .slice(0, maxErrors)
  throw new ServiceError('validation_failed', errors[0]!.message, { errors })
}

/** @param names of all fields of the body or the query */
function fieldErrors(
  issue: z.core.$ZodIssue,
  value: unknown,
  part: 'body' | 'query',
  names: readonly string[],
): FieldError[] {
  if (issue.code === 'unrecognized_keys') {
    const unknown = part === 'query' ? 'unknown query parameter' : 'unknown field'
    const known = issue.path.length > 0 ? '' : `; known: ${names.join(', ') || 'none'}`
    return issue.keys.map((key) => ({
      pointer: jsonPointer([...issue.path, key]),
      message: unknown + known,
    }))
  }
  // If a parameter is sent twice, its value is a list.
  const isRepeated =
    part === 'query' && Array.isArray((value as Record<PropertyKey, unknown>)[issue.path[0]!])
  const message = isRepeated ? 'must be sent once' : messageOf(issue, value)
  return [{ pointer: jsonPointer(issue.path), message }]
}

function messageOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'invalid_value') return `must be one of: ${issue.values.map(String).join(', ')}`
  if (issue.code !== 'invalid_type') return issue.message
  if (isMissing(issue.path, value)) return 'is required'
  return issue.message.startsWith('Invalid input') ? `must be ${named(issue.expected)}` : issue.message
}

function isMissing(path: readonly PropertyKey[], value: unknown): boolean {
  let at = value
  for (const part of path) at = (at as Record<PropertyKey, unknown> | null | undefined)?.[part]
  return at === undefined && path.length > 0
}

function named(expected: string): string {
  const names: Record<string, string> = {
    object: 'an object',
    array: 'an array',
    boolean: 'true or false',
    int: 'a whole number',
  }
  return names[expected] ?? `a ${expected}`
}

/** RFC 6901. */
function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}
