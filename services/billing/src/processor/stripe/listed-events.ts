import { Stripe } from 'stripe'
import type { ListedEvent } from '../processor.ts'
import { connectedAccountOf } from './client.ts'
import { isOfUsedVersion, listedEventTypes } from './events.ts'
import { lookUp } from './failures.ts'

const pageSize = 100
// Stripe's limit.
const maxTypes = 20

/** Lists the events of a connected account in pages. @throws if a page could not be read */
export async function* listEvents(
  stripe: Stripe,
  merchant: string,
  since: Date,
): AsyncGenerator<ListedEvent[]> {
  const created = { gte: Math.floor(since.getTime() / 1000) }
  const options = { stripeAccount: connectedAccountOf(merchant), timeout: 5_000 }
  for (let from = 0; from < listedEventTypes.length; from += maxTypes) {
    const types = listedEventTypes.slice(from, from + maxTypes)
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

type Retrieve = (
  stripe: Stripe,
  id: string,
  params: object,
  options: Stripe.RequestOptions,
) => Promise<object>

/** Reads an object by the value of its member `object`. */
const retrieve: Readonly<Record<string, Retrieve>> = {
  charge: (stripe, ...about) => stripe.charges.retrieve(...about),
  'checkout.session': (stripe, ...about) => stripe.checkout.sessions.retrieve(...about),
  dispute: (stripe, ...about) => stripe.disputes.retrieve(...about),
  invoice: (stripe, ...about) => stripe.invoices.retrieve(...about),
  invoice_payment: (stripe, ...about) => stripe.invoicePayments.retrieve(...about),
  refund: (stripe, ...about) => stripe.refunds.retrieve(...about),
  subscription: (stripe, ...about) => stripe.subscriptions.retrieve(...about),
}

// Stripe allows about 100 requests a second.
const readTogether = 8

/**
 * The events in the API version that is read here. Stripe lists an event in the version of its account. If that is another
 * one, the event says only that it exists: its object is read instead, as it is at present. The event's type and time, and
 * the previous values that it names, say what had happened.
 */
export async function inUsedVersion(
  stripe: Stripe,
  merchant: string,
  events: ListedEvent[],
): Promise<ListedEvent[]> {
  const options = { stripeAccount: connectedAccountOf(merchant), timeout: 1_500, maxNetworkRetries: 2 }
  const read = async (kind: string, id: string) =>
    lookUp(async () => retrieve[kind]?.(stripe, id, {}, options))
  const objects = new Map<string, Promise<object | undefined>>()
  const readOnce = (kind: string, id: string) => {
    const name = `${kind} ${id}`
    const reading = objects.get(name) ?? read(kind, id)
    objects.set(name, reading)
    return reading
  }
  const all: ListedEvent[] = []
  for (let from = 0; from < events.length; from += readTogether) {
    const together = events.slice(from, from + readTogether)
    all.push(...(await Promise.all(together.map((event) => withObject(event, readOnce)))))
  }
  return all
}

/** An event of an unknown object stays as it was listed. */
async function withObject(
  listed: ListedEvent,
  read: (kind: string, id: string) => Promise<object | undefined>,
): Promise<ListedEvent> {
  const event = JSON.parse(listed.body.toString()) as Stripe.Event
  if (isOfUsedVersion(event.api_version)) return listed
  const { object: kind, id } = event.data.object as { object?: unknown; id?: unknown }
  const object = typeof id === 'string' ? await read(String(kind), id) : undefined
  if (!object) return listed
  const whole = { ...event, api_version: Stripe.API_VERSION, data: { ...event.data, object } }
  return { ...listed, body: Buffer.from(JSON.stringify(whole)) }
}
