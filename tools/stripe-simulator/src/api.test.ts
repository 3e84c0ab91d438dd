import { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  givenPayment,
  givenPrice,
  givenSession,
  givenSubscription,
  objectsOf,
  startWorld,
  vendor,
} from '../test/support.ts'
import type { World } from '../test/support.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const checkout = (price: string): Stripe.Checkout.SessionCreateParams => ({
  mode: 'payment',
  line_items: [{ price, quantity: 1 }],
  success_url: 'http://127.0.0.1/thanks',
})

test('every answer says that it is simulated and has a request id', async () => {
  const session = await givenSession(world)
  const { lastResponse } = await world.stripe.checkout.sessions.retrieve(session.id, {}, asVendor)
  expect(lastResponse.headers['x-simulated']).toBe('stripe-simulator; no money moves')
  expect(lastResponse.requestId).toMatch(/^req_sim/)
  expect(lastResponse.apiVersion).toBe('2026-10-28.endive')
})

test.each([
  ['sk_live_something', 'refuses live keys'],
  ['nonsense', 'Invalid API Key'],
])('the key %s is refused', async (key, message) => {
  const options = {
    host: '127.0.0.1',
    port: world.simulator.port,
    protocol: 'http',
    telemetry: false,
  } as const
  const refusal = new Stripe(key, options).events.list()
  await expect(refusal).rejects.toBeInstanceOf(Stripe.errors.StripeAuthenticationError)
  await expect(refusal).rejects.toThrow(message)
})

test('another account and the platform see none of a vendor’s objects', async () => {
  const { stripe } = world
  const paid = await givenPayment(world)
  const { subscription } = await givenSubscription(world)
  for (const other of [{}, { stripeAccount: 'acct_simOther' }]) {
    const looks = [
      stripe.checkout.sessions.retrieve(paid.session.id, {}, other),
      stripe.paymentIntents.retrieve(paid.intent, {}, other),
      stripe.charges.retrieve(paid.charge, {}, other),
      stripe.subscriptions.retrieve(subscription, {}, other),
    ]
    for (const result of await Promise.allSettled(looks)) {
      expect(result).toMatchObject({ reason: { statusCode: 404, code: 'resource_missing' } })
    }
    expect((await stripe.refunds.list({ charge: paid.charge }, other)).data).toEqual([])
  }
})

test('a vendor that disconnects cannot be used, and can connect again', async () => {
  const account = 'acct_simLeaving'
  const { stripe, simulator } = world
  expect(await stripe.accounts.retrieve(account)).toMatchObject({ charges_enabled: true })
  await simulator.control('deauthorize', { account })
  for (const call of [
    stripe.accounts.retrieve(account),
    stripe.refunds.list({}, { stripeAccount: account }),
  ]) {
    await expect(call).rejects.toBeInstanceOf(Stripe.errors.StripePermissionError)
  }
  await simulator.control('authorize', { account })
  expect(await stripe.accounts.retrieve(account)).toMatchObject({ id: account })
})

test('lists are newest first, filtered by time, and paged by the client', async () => {
  const { refunds, disputes } = world.stripe
  const { charge } = await givenPayment(world)
  const made: unknown[] = []
  const from = 1_793_700_000
  for (let at = 0; at < 12; at += 1) {
    made.unshift((await world.simulator.control('refund', { charge, amount: 10, created: from + at }))['id'])
    const { id } = await world.simulator.control<{ id: string }>('dispute', { charge, kind: 'inquiry' })
    await world.simulator.control('close-dispute', { dispute: id, outcome: 'warning_closed' })
  }
  for (const first of [await refunds.list({ charge }, asVendor), await disputes.list({ charge }, asVendor)]) {
    expect(first).toMatchObject({ has_more: true })
    expect(first.data).toHaveLength(10)
  }
  const all: string[] = []
  for await (const refund of refunds.list({ charge, limit: 5 }, asVendor)) all.push(refund.id)
  expect(all).toEqual(made)
  const closed: string[] = []
  for await (const dispute of disputes.list({ charge }, asVendor)) closed.push(dispute.id)
  expect(new Set(closed).size).toBe(12)
  const recent = await refunds.list({ charge, created: { gte: from + 10 } }, asVendor)
  expect(recent.data.map(({ id }) => id)).toEqual(made.slice(0, 2))
  await expect(refunds.list({ starting_after: 're_nobody' }, asVendor)).rejects.toThrow('No such')
})

test('references are expanded several levels deep, and in lists', async () => {
  const { stripe, simulator } = world
  const { charge, intent, session } = await givenPayment(world)
  await simulator.control('refund', { charge, amount: 10 })
  const expand = ['payment_intent.latest_charge.payment_intent']
  const deep = await stripe.checkout.sessions.retrieve(session.id, { expand }, asVendor)
  expect(deep.payment_intent).toMatchObject({
    id: intent,
    latest_charge: { id: charge, payment_intent: { id: intent } },
  })
  const list = await stripe.refunds.list({ charge, expand: ['data.charge'] }, asVendor)
  expect(list.data[0]?.charge).toMatchObject({ id: charge })
  const nonsense = stripe.charges.retrieve(charge, { expand: ['nonsense'] }, asVendor)
  await expect(nonsense).rejects.toThrow('This property cannot be expanded (nonsense).')
})

test('repeats with an idempotency key get the same answer, and other parameters are refused', async () => {
  const { stripe } = world
  const price = await givenPrice(world.simulator)
  const options = { ...asVendor, idempotencyKey: 'chk_twice' }
  const create = () => stripe.checkout.sessions.create(checkout(price), options)
  const [first, ...repeats] = await Promise.all(Array.from({ length: 20 }, create))
  for (const repeat of repeats) expect(repeat.id).toBe(first?.id)
  const again = await create()
  expect(again).toEqual(first)
  expect(again.lastResponse.headers['idempotent-replayed']).toBe('true')
  const other = stripe.checkout.sessions.create({ ...checkout(price), client_reference_id: 'x' }, options)
  await expect(other).rejects.toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
  await expect(other).rejects.toMatchObject({ statusCode: 400 })
  const elsewhere = { stripeAccount: 'acct_simOther', idempotencyKey: 'chk_twice' }
  await expect(stripe.checkout.sessions.create(checkout(price), elsewhere)).rejects.toThrow('No such price')
})

test('an error because of the state is saved under the key, an error in the parameters is not', async () => {
  const { stripe, simulator } = world
  const price = { id: 'price_new', account: vendor, unit_amount: 50, currency: 'usd' }
  const create = (idempotencyKey: string) =>
    stripe.checkout.sessions.create(checkout(price.id), { ...asVendor, idempotencyKey })
  await expect(create('chk_unknown')).rejects.toThrow('No such price')
  await simulator.control('set-price', { ...price, active: false })
  await expect(create('chk_inactive')).rejects.toThrow('inactive')
  await simulator.control('set-price', price)
  expect(await create('chk_unknown')).toMatchObject({ amount_total: 50 })
  await expect(create('chk_inactive')).rejects.toThrow('inactive')
})

test.each([
  ['403', Stripe.errors.StripePermissionError, 403],
  ['429', Stripe.errors.StripeRateLimitError, 429],
  ['409', Stripe.errors.StripeAPIError, 409],
  ['500', Stripe.errors.StripeAPIError, 500],
  ['503', Stripe.errors.StripeAPIError, 503],
])(
  'an injected %s applies to the next call that matches, and to no other',
  async (answer, type, statusCode) => {
    const { stripe, simulator } = world
    await simulator.control('faults', { answer, path: '/v1/disputes' })
    await stripe.refunds.list({}, asVendor)
    const spoilt = stripe.disputes.list({}, asVendor)
    await expect(spoilt).rejects.toBeInstanceOf(type)
    await expect(spoilt).rejects.toMatchObject({ statusCode })
    await stripe.disputes.list({}, asVendor)
  },
)

test('a missing permission is refused on its path and account until it is granted', async () => {
  const { stripe, simulator } = world
  const { charge } = await givenPayment(world)
  const fault = { answer: '403', until_cleared: true, path: '/v1/charges', account: vendor }
  await simulator.control('faults', fault)
  for (let times = 0; times < 2; times += 1) {
    await expect(stripe.charges.retrieve(charge, {}, asVendor)).rejects.toMatchObject({
      rawType: 'invalid_request_error',
      code: undefined,
      message: expect.stringContaining('does not have the required permissions'),
    })
  }
  await fetch(`${simulator.url}/_sim/faults`, { method: 'DELETE' })
  await stripe.charges.retrieve(charge, {}, asVendor)
})

test.each(['hang', 'reset', 'timeout', '500'])(
  'after a %s lost the answer, a repeat with the same key gets it',
  async (answer) => {
    const { stripe, simulator } = world
    const price = await givenPrice(simulator)
    const options = { ...asVendor, idempotencyKey: `chk_${answer}` }
    const sessions = async () => (await objectsOf(world, 'sessions')).length
    const before = await sessions()
    // The client itself tries a closed connection once more.
    const next = answer === 'reset' || answer === 'timeout' ? 2 : 1
    await simulator.control('faults', { answer, next, applied: true, delay_ms: 20, method: 'POST' })
    const lost = stripe.checkout.sessions.create(checkout(price), { ...options, timeout: 1_500 })
    const { StripeAPIError, StripeConnectionError } = Stripe.errors
    await expect(lost).rejects.toBeInstanceOf(answer === '500' ? StripeAPIError : StripeConnectionError)
    const found = await stripe.checkout.sessions.create(checkout(price), options)
    expect(found.lastResponse.headers['idempotent-replayed']).toBe('true')
    expect(await sessions()).toBe(before + 1)
  },
)

test('an unsupported path is refused with a message that says so', async () => {
  const response = await fetch(`${world.simulator.url}/v1/customers`)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({
    error: { message: expect.stringContaining('only a part of Stripe') },
  })
  await expect(world.simulator.control('nonsense')).rejects.toThrow('No such action')
  await expect(world.simulator.control('pay', { sesion: 'x' })).rejects.toThrow('unknown parameter: sesion')
})
