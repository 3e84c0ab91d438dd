import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { UsageError } from '../command/failures.ts'

/** The types of a list with commas; every type where there is none, or a star. */
export function typesOf(list: string | undefined): ReadonlySet<string> | 'all' {
  if (list === undefined || list.trim() === '*') return 'all'
  const known: readonly string[] = webhookEventTypes
  const types = list.split(',').map((type) => type.trim())
  const unknown = types.find((type) => !known.includes(type))
  if (unknown === undefined) return new Set(types)
  throw new UsageError(`unknown event: ${unknown === '' ? '(none)' : unknown}; known: ${known.join(', ')}`)
}
