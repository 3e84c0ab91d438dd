import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import {
  asVendor,
  eventsOf,
  givenPayment,
  givenSession,
  givenSubscription,
  idOf,
  saleEvents,
  startWorld,
  vendor,
} from '../test/support.ts'
import type { World } from '../test/support.ts'
import { eventTypes } from './objects/event.ts'

const verify = (world: World, index: number): Stripe.Event => {
  const { body, signature } = world.receiver.received[index] ?? { body: '', signature: undefined }
  return Stripe.webhooks.constructEvent(body, signature ?? '', world.simulator.webhookSecret, 300)
}

/** The state of the latest delivery of each type. */
async function statesOf({ simulator }: World): Promise<Record<string, string>> {
  const answer = await fetch(`${simulator.url}/_sim/events`)
  const { data } = (await answer.json()) as {
    data: { event: { type: string }; delivery: { state: string } }[]
  }
  return Object.fromEntries(data.map(({ event, delivery }) => [event.type, delivery.state]))
}

test('the official library verifies events, and refuses them if a byte was changed', async () => {
  await using world = await startWorld()
  await givenPayment(world)
  await world.simulator.settled()
  const event = verify(world, 0)
  expect(event).toMatchObject({ type: 'checkout.session.completed', account: vendor, livemode: false })
  const { body, signature } = world.receiver.received[0] ?? { body: '', signature: '' }
  const changed = body.replace('4900', '4901')
  expect(() =>
    Stripe.webhooks.constructEvent(changed, signature ?? '', world.simulator.webhookSecret),
  ).toThrow(Stripe.errors.StripeSignatureVerificationError)
})

test('events are listed by their types and times', async () => {
  await using world = await startWorld()
  await givenPayment(world)
  const types = async (params: object) =>
    (await world.stripe.events.list(params, asVendor)).data.map(({ type }) => type).toSorted()
  expect(await types({})).toEqual(['charge.succeeded', 'checkout.session.completed'])
  expect(await types({ types: ['charge.succeeded', 'invoice.paid'], created: { gte: 0 } })).toEqual([
    'charge.succeeded',
  ])
})

test('a refused event is sent again until it is accepted', async () => {
  await using world = await startWorld()
  world.receiver.answers.push(500, 302)
  const { id } = await givenSession(world)
  await world.simulator.control('expire', { session: id })
  await world.simulator.settled()
  expect(world.receiver.received.map(({ status }) => status)).toEqual([500, 302, 200])
  expect(new Set(world.receiver.received.map(({ event }) => event.id)).size).toBe(1)
})

test('after the last attempt an event counts as failed', async () => {
  await using world = await startWorld()
  world.receiver.answers.push(500, 500, 500, 500)
  const { id } = await givenSession(world)
  await world.simulator.control('expire', { session: id })
  await world.simulator.settled()
  expect(world.receiver.received).toHaveLength(4)
  expect(await statesOf(world)).toEqual({ 'checkout.session.expired': 'failed' })
})

test('held events wait, and are released last first', async () => {
  await using world = await startWorld()
  await world.simulator.control('delivery-rules', { action: 'hold' })
  const { charge } = await givenPayment(world)
  await world.simulator.control('refund', { charge })
  await world.simulator.settled()
  expect(world.receiver.received).toEqual([])
  await world.simulator.control('release', { order: 'reversed' })
  await world.simulator.settled()
  expect(world.receiver.types()).toEqual(['charge.refunded', 'refund.created', 'checkout.session.completed'])
  await givenPayment(world)
  await world.simulator.settled()
  expect(world.receiver.types()).toHaveLength(4)
})

test('a rule can duplicate, delay or drop the next events of a type', async () => {
  await using world = await startWorld(['refund.created', 'charge.refunded'])
  const { simulator, receiver } = world
  const { charge } = await givenPayment(world)
  const rule = (action: string, type: string, how: object = {}) =>
    simulator.control('delivery-rules', { action, next: 1, types: [type], ...how })
  await rule('duplicate', 'refund.created', { times: 3 })
  await simulator.control('refund', { charge, amount: 1 })
  await simulator.settled()
  expect(receiver.types().toSorted()).toEqual([
    'charge.refunded',
    'refund.created',
    'refund.created',
    'refund.created',
  ])

  await rule('delay', 'refund.created', { delay_ms: 150 })
  await rule('drop', 'charge.refunded')
  const started = performance.now()
  await simulator.control('refund', { charge, amount: 1 })
  await simulator.settled()
  expect(performance.now() - started).toBeGreaterThan(140)
  expect(receiver.types().slice(4)).toEqual(['refund.created'])
  expect(await statesOf(world)).toMatchObject({
    'charge.refunded': 'dropped',
    'refund.created': 'delivered',
  })
})

test('a made-up event can be sent', async () => {
  await using world = await startWorld(['price.created'])
  const event = {
    type: 'price.created',
    account: vendor,
    livemode: true,
    data: { object: { id: 'price_1' } },
  }
  expect(await world.simulator.control('deliver', { event })).toMatchObject({ status: 200 })
  expect(verify(world, 0)).toMatchObject({ ...event, object: 'event' })
})

test('a change is reported by two events, as Stripe does for renewals and failed refunds', async () => {
  await using world = await startWorld(eventTypes)
  const { charge } = await givenPayment(world)
  const { subscription } = await givenSubscription(world)
  await world.simulator.control('renew', { subscription })
  const { id } = await world.simulator.control<{ id: string }>('refund', { charge })
  await world.simulator.control('refund-status', { refund: id, status: 'failed' })
  await world.simulator.settled()
  const times = (...types: string[]) => types.map((type) => eventsOf(world.receiver, type).length)
  expect(times('invoice.paid', 'invoice.payment_succeeded', 'invoice_payment.paid')).toEqual([2, 2, 2])
  expect(times('refund.updated', 'charge.refund.updated')).toEqual([1, 1])
})

test('listed events have the members of the account’s API version; deliveries and other answers do not', async () => {
  await using world = await startWorld(eventTypes)
  await world.simulator.control('settings', { account: vendor, api_version: '2024-06-20' })
  const { subscription, session } = await givenSubscription(world)
  await world.simulator.control('cancel', { subscription, when: 'period_end' })
  await world.simulator.settled()
  const { data: listed } = await world.stripe.events.list({ limit: 100 }, asVendor)
  const listedAs = (type: string) => listed.find((event) => event.type === type)!
  const paid = listedAs('invoice.paid')
  expect(paid).toMatchObject({
    api_version: '2024-06-20',
    data: { object: { id: session.invoice, subscription, paid: true } },
  })
  expect(paid.data.object).not.toHaveProperty('parent')
  const created = Object(listedAs('customer.subscription.updated').data.object) as Record<string, unknown>
  expect(created['current_period_end']).toBeGreaterThan(paid.created)
  const [delivered] = eventsOf(world.receiver, 'invoice.paid')
  expect(delivered).toMatchObject({ id: paid.id, api_version: Stripe.API_VERSION })
  expect(delivered?.data.object).toMatchObject({ parent: { subscription_details: { subscription } } })
  const answer = await world.stripe.invoices.retrieve(idOf(session.invoice), {}, asVendor)
  expect(answer.parent?.subscription_details?.subscription).toBe(subscription)
})

test('stopping does not wait for an endpoint that never answers', async () => {
  const world = await startWorld(saleEvents, { retryDelaysMs: [60_000] })
  world.receiver.answers.push(500)
  await givenPayment(world)
  await expect.poll(() => world.receiver.received.length, { timeout: 30_000 }).toBeGreaterThan(0)
  const started = performance.now()
  await world[Symbol.asyncDispose]()
  expect(performance.now() - started).toBeLessThan(20_000)
})
