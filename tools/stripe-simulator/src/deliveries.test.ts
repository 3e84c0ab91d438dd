import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import { asVendor, givenPayment, givenSession, startReceiver, startWorld, vendor } from './test-support.ts'
import type { World } from './test-support.ts'

const verify = (world: World, index: number): Stripe.Event => {
  const { body, signature } = world.receiver.received[index] ?? { body: '', signature: undefined }
  return Stripe.webhooks.constructEvent(body, signature ?? '', world.simulator.webhookSecret, 300)
}

/** Waits until a condition is true, while other tasks of the event loop run. */
async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + 30_000
  while (!condition()) {
    if (Date.now() > end) throw new Error('the condition did not become true')
    await new Promise((next) => setTimeout(next, 5))
  }
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

test('only the types that the endpoint is subscribed to are sent; all are listed', async () => {
  await using world = await startWorld({ enabledEvents: ['checkout.session.completed'] })
  await givenPayment(world)
  await world.simulator.settled()
  expect(world.receiver.types()).toEqual(['checkout.session.completed'])
  const listed = await world.stripe.events.list({}, asVendor)
  expect(listed.data.map(({ type }) => type).toSorted()).toEqual([
    'charge.succeeded',
    'checkout.session.completed',
    'payment_intent.created',
    'payment_intent.succeeded',
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

test('after the last attempt an event counts as undelivered and can be listed', async () => {
  await using world = await startWorld()
  world.receiver.answers.push(500, 500, 500, 500)
  const { id } = await givenSession(world)
  await world.simulator.control('expire', { session: id })
  await world.simulator.settled()
  expect(world.receiver.received).toHaveLength(4)
  await givenPayment(world)
  await world.simulator.settled()
  const missed = await world.stripe.events.list({ delivery_success: false }, asVendor)
  expect(missed.data).toMatchObject([{ type: 'checkout.session.expired', pending_webhooks: 1 }])
  const since = await world.stripe.events.list(
    { types: ['checkout.session.completed', 'checkout.session.expired'], created: { gte: 0 } },
    asVendor,
  )
  expect(since.data.map(({ type }) => type)).toEqual([
    'checkout.session.completed',
    'checkout.session.expired',
  ])
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

test('named events are released in the order they are named', async () => {
  await using world = await startWorld()
  await world.simulator.control('delivery-rules', { action: 'hold' })
  const { charge } = await givenPayment(world)
  await world.simulator.control('refund', { charge })
  const { data } = await world.stripe.events.list({ delivery_success: false }, asVendor)
  const event_ids = ['refund.created', 'checkout.session.completed', 'charge.refunded'].map(
    (type) => data.find((event) => event.type === type)?.id,
  )
  await world.simulator.control('release', { event_ids })
  await world.simulator.settled()
  expect(world.receiver.received.map(({ event }) => event.id)).toEqual(event_ids)
})

test('a rule can reorder, duplicate, delay or drop the next events of a type', async () => {
  await using world = await startWorld()
  const { simulator, receiver } = world
  const { charge } = await givenPayment(world)
  await simulator.settled()
  receiver.received.length = 0

  await simulator.control('delivery-rules', { action: 'reorder', next: 2 })
  await simulator.control('refund', { charge, amount: 1 })
  await simulator.settled()
  expect(receiver.types()).toEqual(['charge.refunded', 'refund.created'])

  await simulator.control('delivery-rules', {
    action: 'duplicate',
    times: 3,
    next: 1,
    types: ['refund.created'],
  })
  await simulator.control('refund', { charge, amount: 1 })
  await simulator.settled()
  expect(receiver.types().slice(2).toSorted()).toEqual([
    'charge.refunded',
    'refund.created',
    'refund.created',
    'refund.created',
  ])

  await simulator.control('delivery-rules', {
    action: 'delay',
    delay_ms: 150,
    next: 1,
    types: ['refund.created'],
  })
  await simulator.control('delivery-rules', { action: 'drop', next: 1, types: ['charge.refunded'] })
  const started = performance.now()
  await simulator.control('refund', { charge, amount: 1 })
  await simulator.settled()
  expect(performance.now() - started).toBeGreaterThan(140)
  expect(receiver.types().slice(6)).toEqual(['refund.created'])
  const missed = await world.stripe.events.list({ delivery_success: false }, asVendor)
  expect(missed.data.map(({ type }) => type)).toEqual(['charge.refunded'])
})

test.each(['wrong_secret', 'tampered', 'reserialized', 'old', 'missing', 'malformed', 'v0_only'])(
  'an event forged as %s is refused by the official library',
  async (signature) => {
    await using world = await startWorld()
    await givenPayment(world)
    await world.simulator.settled()
    const event_id = world.receiver.received[0]?.event.id
    await world.simulator.control('deliver', { event_id, signature })
    // For a malformed header the library throws a plain error.
    const { StripeSignatureVerificationError } = Stripe.errors
    expect(() => verify(world, 1)).toThrow(
      signature === 'malformed' ? Error : StripeSignatureVerificationError,
    )
    expect(verify(world, 0).id).toBe(event_id)
  },
)

test('a signature from the future is off by more than 300 seconds, which the library accepts', async () => {
  await using world = await startWorld()
  await givenPayment(world)
  await world.simulator.settled()
  const event_id = world.receiver.received[0]?.event.id
  await world.simulator.control('deliver', { event_id, signature: 'future' })
  expect(verify(world, 1).id).toBe(event_id)
  const stamp = Number(/t=(\d+)/.exec(world.receiver.received[1]?.signature ?? '')?.[1])
  expect(stamp - Date.now() / 1000).toBeGreaterThan(300)
})

test('a forge rule sends a bad copy once and never the correct event', async () => {
  await using world = await startWorld()
  await world.simulator.control('delivery-rules', { action: 'forge', signature: 'old', next: 1 })
  await givenPayment(world)
  await world.simulator.settled()
  expect(world.receiver.types()).toEqual(['checkout.session.completed'])
  expect(() => verify(world, 0)).toThrow('Timestamp outside the tolerance zone')
})

test('a made-up event can be sent many times at once', async () => {
  await using world = await startWorld()
  const event = {
    type: 'price.created',
    account: vendor,
    livemode: true,
    data: { object: { id: 'price_1' } },
  }
  const sent = await world.simulator.control<{ attempts: { status: number }[] }>('deliver', {
    event,
    times: 10,
    concurrent: true,
  })
  expect(sent.attempts.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
  expect(world.receiver.received).toHaveLength(10)
  expect(verify(world, 9)).toMatchObject({ ...event, object: 'event' })
})

test('if the endpoint’s URL changes, events are sent to the new URL', async () => {
  await using world = await startWorld()
  await using other = await startReceiver()
  world.simulator.sendWebhooksTo(other.url)
  await givenPayment(world)
  await world.simulator.settled()
  expect(world.receiver.received).toEqual([])
  expect(other.types()).toEqual(['checkout.session.completed'])
})

test('stopping does not wait for an endpoint that never answers', async () => {
  const world = await startWorld({ retryDelaysMs: [60_000] })
  world.receiver.answers.push(500)
  await givenPayment(world)
  await until(() => world.receiver.received.length > 0)
  const started = performance.now()
  await world[Symbol.asyncDispose]()
  expect(performance.now() - started).toBeLessThan(20_000)
})
