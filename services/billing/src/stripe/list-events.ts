import type Stripe from 'stripe'
import type { ListedEvent } from '../processors/processor.ts'
import { connectedAccountOf } from './client.ts'
import { usedEventTypes } from './events.ts'

// Stripe's limits of `types` and of a page.
const mostTypes = 20
const pageSize = 100

/** Stripe's own list of a connected account's events, in pages. @throws if a page of it could not be read */
export async function* listEvents(
  stripe: Stripe,
  merchant: string,
  since: Date,
): AsyncGenerator<ListedEvent[]> {
  const created = { gte: Math.floor(since.getTime() / 1000) }
  const options = { stripeAccount: connectedAccountOf(merchant), timeout: 5_000 }
  for (let from = 0; from < usedEventTypes.length; from += mostTypes) {
    const types = usedEventTypes.slice(from, from + mostTypes)
    for (let after: string | undefined, hasMore = true; hasMore;) {
      const page = await stripe.events.list(
        { types, created, limit: pageSize, ...(after !== undefined && { starting_after: after }) },
        options,
      )
      after = page.data.at(-1)?.id
      hasMore = page.has_more && after !== undefined
      yield page.data.map(listed)
    }
  }
}

function listed(event: Stripe.Event): ListedEvent {
  const body = Buffer.from(JSON.stringify(event))
  return { eventId: event.id, type: event.type, createdAt: event.created * 1000, body }
}
