import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'

/** Types that an endpoint is subscribed to; null for all of them, also those yet to come. */
export type Subscription = string[] | null

/** Reads `*` or types separated by commas. @returns what is wrong with it where it is neither */
export function readSubscription(text: string): { types: Subscription } | { problem: string } {
  if (text.trim() === '*') return { types: null }
  const types = text.split(',').map((type) => type.trim())
  if (types.includes('')) return { problem: 'must be * or event types separated by commas' }
  const unknown = types.find((type) => !webhookEventTypes.includes(type))
  if (unknown !== undefined) return { problem: `has an unknown event type: ${firstCharacters(unknown, 100)}` }
  return { types: [...new Set(types)] }
}

export function writeSubscription(types: Subscription): string {
  return types === null ? '*' : types.join(',')
}

export function isSubscribed(types: Subscription, type: string): boolean {
  return types === null || types.includes(type)
}
