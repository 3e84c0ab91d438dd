import { z } from 'zod'

/** Text of `least` to `most` characters (code points, not UTF-16 units), storable as it is. */
export function text(least: number, most: number) {
  return z
    .string()
    .superRefine((value, context) => {
      const problem = textProblem(value, least, most)
      if (problem) context.addIssue({ code: 'custom', message: problem })
    })
    .meta({ minLength: least, maxLength: most })
}

/** Text of any length that a service judges by itself, still storable as it is. */
export const storableText = z
  .string()
  .refine((value) => storable(value), 'must not contain NUL or half a character')

function textProblem(value: string, least: number, most: number): string | undefined {
  if (!storable(value)) return 'must not contain NUL or half a character'
  // Code points never outnumber UTF-16 units, and are at least half as many.
  if (value.length <= most && value.length >= 2 * least) return undefined
  const length = characters(value)
  if (length < least || length > most) return `must have ${least} to ${most} characters`
  return undefined
}

// PostgreSQL text holds neither.
function storable(value: string): boolean {
  return !value.includes('\0') && value.isWellFormed()
}

function characters(value: string): number {
  let count = 0
  for (const _ of value) count++
  return count
}
