import { isStorable, problemOfText, unstorable } from '@licensing/proto/text'
import type { TextLimit } from '@licensing/proto/text'
import { z } from 'zod'

/** Text within a limit, counted in characters, storable as it is. */
export function text(limit: TextLimit) {
  return z
    .string()
    .superRefine((value, context) => {
      const problem = problemOfText(value, limit)
      if (problem) context.addIssue({ code: 'custom', message: problem })
    })
    .meta(lengths(limit))
}

/** A limit as the OpenAPI document has it, for a schema that refines `text` or checks the limit itself. */
export function lengths({ least, most }: TextLimit) {
  return { minLength: least, maxLength: most }
}

/** Text of any length that a service judges by itself, still storable as it is. */
export const storableText = z.string().refine(isStorable, unstorable)
