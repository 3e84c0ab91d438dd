import type { z } from 'zod'

/** A field that may be left out; an explicit null is the same as leaving it out. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined)
}
