import { z } from 'zod'

export const dayMs = 86_400_000

/** A date of UTC in a request, as the time at which it begins. */
export const day = z
  .string()
  .meta({ format: 'date', examples: ['2026-11-01'] })
  .transform((text, context) => {
    const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN
    // 31 June is read as 1 July by some: such a date does not exist.
    if (!Number.isNaN(ms) && dayText(ms) === text) return ms
    context.addIssue({ code: 'custom', message: 'must be a date such as 2026-11-01' })
    return z.NEVER
  })

/** The date of UTC of a time. */
export function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
