import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Stripe } from 'stripe'
import { eventTypes, type SimulatedEvent } from '../src/objects/event.ts'
import { startSimulator, type Simulator, type SimulatorOptions } from '../src/simulator.ts'

export const vendor = 'acct_simVendor'
export const asVendor = { stripeAccount: vendor }

/** The official client, connected to the simulator. */
export function clientOf(simulator: Simulator): Stripe {
  return new Stripe('sk_test_simulated', {
    host: '127.0.0.1',
    port: simulator.port,
    protocol: 'http',
    maxNetworkRetries: 0,
    timeout: 2000,
    telemetry: false,
  })
}

export type Delivered = { event: SimulatedEvent; body: string; signature: string | undefined; status: number }

export type Receiver = AsyncDisposable & {
  url: string
  /** Every POST, in the order of arrival. */
  received: Delivered[]
  /** The statuses of the next answers; after them 200. */
  answers: number[]
  types: () => string[]
}

/** The id of a reference, which may have been expanded. */
export function idOf(reference: string | { id: string } | null | undefined): string {
  if (typeof reference === 'string') return reference
  if (reference) return reference.id
  throw new Error('there is no reference')
}

/** A webhook endpoint that records its requests with a wanted type of event. It accepts the others. */
async function startReceiver(wanted: readonly string[]): Promise<Receiver> {
  const received: Delivered[] = []
  const answers: number[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const body = Buffer.concat(parts).toString()
      const event = JSON.parse(body) as SimulatedEvent
      const isWanted = wanted.includes(event.type)
      const status = (isWanted ? answers.shift() : undefined) ?? 200
      const signature = request.headers['stripe-signature']?.toString()
      if (isWanted) received.push({ event, body, signature, status })
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/events`,
    received,
    answers,
    types: () => received.map(({ event }) => event.type),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

export type World = AsyncDisposable & { simulator: Simulator; receiver: Receiver; stripe: Stripe }

// Only one event per paid sale, so that a test lists few events.
export const saleEvents: readonly string[] = eventTypes.filter(
  (type) =>
    !['charge.succeeded', 'charge.updated'].includes(type) && !/^invoice(_payment|\.payment_s)/.test(type),
)

/** A simulator, an endpoint that it delivers to, and the official client. */
/** @param wanted the types of events that the receiver records */
export async function startWorld(
  wanted: readonly string[] = saleEvents,
  options: SimulatorOptions = {},
): Promise<World> {
  const receiver = await startReceiver(wanted)
  const simulator = await startSimulator({
    webhookUrl: receiver.url,
    retryDelaysMs: [10, 20, 40],
    ...options,
  })
  return {
    simulator,
    receiver,
    stripe: clientOf(simulator),
    [Symbol.asyncDispose]: async () => {
      await simulator.stop()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

export async function givenPrice(
  simulator: Simulator,
  price: { amount?: number; currency?: string; recurring?: 'month' | 'year' } = {},
): Promise<string> {
  const id = `price_${price.currency ?? 'usd'}_${price.amount ?? 4900}_${price.recurring ?? 'once'}`
  await simulator.control('set-price', {
    id,
    account: vendor,
    unit_amount: price.amount ?? 4900,
    currency: price.currency ?? 'usd',
    recurring: price.recurring ? { interval: price.recurring } : null,
  })
  return id
}

/** `created`: when it is paid. */
export type OpenCheckout = Partial<Stripe.Checkout.SessionCreateParams> & { price?: string; created?: number }

export async function givenSession(
  { simulator, stripe }: Pick<World, 'simulator' | 'stripe'>,
  { price, created: _paidAt, ...params }: OpenCheckout = {},
): Promise<Stripe.Checkout.Session> {
  const subscribing = params.mode === 'subscription'
  const priceId =
    price ??
    (await givenPrice(
      simulator,
      subscribing ? { amount: 2980, currency: 'jpy', recurring: 'month' } : { amount: 4900 },
    ))
  return stripe.checkout.sessions.create(
    {
      mode: 'payment',
      line_items: [{ price: priceId, quantity: 1 }],
      success_url: 'http://127.0.0.1/thanks?session_id={CHECKOUT_SESSION_ID}',
      cancel_url: 'http://127.0.0.1/cancel',
      client_reference_id: 'cust-1001',
      ...params,
    },
    asVendor,
  )
}

export type Paid = { session: Stripe.Checkout.Session; intent: string; charge: string }

/** A session paid by card in payment mode, with the ids of its payment. */
export async function givenPayment(world: World, params: OpenCheckout = {}): Promise<Paid> {
  const open = await givenSession(world, params)
  await world.simulator.control('pay', { session: open.id })
  const session = await world.stripe.checkout.sessions.retrieve(
    open.id,
    { expand: ['payment_intent'] },
    asVendor,
  )
  const intent = session.payment_intent as Stripe.PaymentIntent
  return { session, intent: intent.id, charge: idOf(intent.latest_charge) }
}

export async function givenSubscription(
  world: World,
  params: OpenCheckout = {},
): Promise<{ session: Stripe.Checkout.Session; subscription: string }> {
  const open = await givenSession(world, { mode: 'subscription', ...params })
  await world.simulator.control('pay', { session: open.id, created: params.created })
  const session = await world.stripe.checkout.sessions.retrieve(open.id, {}, asVendor)
  return { session, subscription: idOf(session.subscription) }
}

type Stored = { account: string | null; object: { object?: string; created: number } }

/** The simulator's objects of a kind, newest first. */
export async function objectsOf<Kind>(
  { simulator }: Pick<World, 'simulator'>,
  name: string,
  matches: (object: Kind) => boolean = () => true,
): Promise<Kind[]> {
  const answer = await fetch(`${simulator.url}/_sim/state`)
  const { collections } = (await answer.json()) as { collections: Record<string, Stored[]> }
  const objects = (collections[name] ?? []).map(({ object }) => object).toReversed()
  return (objects.toSorted((a, b) => b.created - a.created) as Kind[]).filter(matches)
}

/** The invoices of a subscription, newest first. */
export async function invoicesOf(world: World, subscription: string): Promise<Stripe.Invoice[]> {
  return objectsOf<Stripe.Invoice>(
    world,
    'invoices',
    ({ parent }) => parent?.subscription_details?.subscription === subscription,
  )
}

/** The charges of a customer or of a payment intent, newest first. */
export async function chargesOf(world: World, of: unknown): Promise<Stripe.Charge[]> {
  return objectsOf<Stripe.Charge>(
    world,
    'charges',
    ({ customer, payment_intent }) => customer === of || payment_intent === of,
  )
}

export function eventsOf(receiver: Receiver, type: string): SimulatedEvent[] {
  return receiver.received.map(({ event }) => event).filter((event) => event.type === type)
}
