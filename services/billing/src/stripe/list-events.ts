import type Stripe from 'stripe'
import type { ListedEvent } from '../processors/processor.ts'
import { connectedAccountOf } from './client.ts'
import { usedEventTypes } from './events.ts'

// Stripe's limit of `types`.
const mostTypes = 20

/** Stripe's own list of a connected account's events. @throws where any page of it could not be read */
export async function* listEvents(
  stripe: Stripe,
  merchant: string,
  since: Date,
): AsyncGenerator<ListedEvent> {
  const created = { gte: Math.floor(since.getTime() / 1000) }
  const options = { stripeAccount: connectedAccountOf(merchant), timeout: 5_000 }
  for (let from = 0; from < usedEventTypes.length; from += mostTypes) {
    const types = usedEventTypes.slice(from, from + mostTypes)
    for await (const event of stripe.events.list({ types, created, limit: 100 }, options)) {
      yield { eventId: event.id, type: event.type, body: Buffer.from(JSON.stringify(event)) }
    }
  }
}
