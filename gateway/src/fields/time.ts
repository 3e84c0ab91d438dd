import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { notTimestamp, parseTimestamp } from '@licensing/proto/timestamp'
import { z } from 'zod'
import { storableText } from './text.ts'

const timestampFormat = { format: 'date-time', examples: ['2027-01-31T00:00:00.000Z'] }

/** A timestamp in a request: ISO 8601 with `Z` or an offset, and an existing date. Shortened to milliseconds. */
export const timestamp = z
  .string()
  .meta(timestampFormat)
  .transform((text, context) => {
    const ms = parseTimestamp(text)
    if (ms !== undefined) return toProto(ms)
    context.addIssue({ code: 'custom', message: notTimestamp })
    return z.NEVER
  })

/** A timestamp of an item of an import. If it is invalid, only that item fails. */
export const importedTimestamp = storableText.meta(timestampFormat)

/** A timestamp in an answer. */
export const timestampText = z.string().meta({ format: 'date-time', examples: ['2026-11-01T12:00:00.000Z'] })

export function toProto(ms: number): { seconds: bigint; nanos: number } {
  const seconds = Math.floor(ms / 1000)
  return { seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 }
}

/** ISO 8601 UTC with milliseconds and `Z`. */
export function isoText(from: Timestamp | undefined): string {
  return new Date(from ? Number(from.seconds) * 1000 + Math.floor(from.nanos / 1_000_000) : 0).toISOString()
}

export function isoTextOrNull(from: Timestamp | undefined): string | null {
  return from ? isoText(from) : null
}

export const dayMs = 86_400_000

/** A UTC date in a request, converted to the time at which it begins. */
export const day = z
  .string()
  .meta({ format: 'date', examples: ['2026-11-01'] })
  .transform((text, context) => {
    const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN
    // Date.parse reads some dates that do not exist, such as 31 June, as a later date.
    if (!Number.isNaN(ms) && dayText(ms) === text) return ms
    context.addIssue({ code: 'custom', message: 'must be a date such as 2026-11-01' })
    return z.NEVER
  })

/** The UTC date of a time. */
export function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** `since` and `until` of a list. */
export const period = {
  since: timestamp.optional().describe('At or after this time.'),
  until: timestamp.optional().describe('Before this time.'),
}
