import { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  clientOf,
  givenPayment,
  givenPrice,
  givenSession,
  givenSubscription,
  startWorld,
} from './test-support.ts'
import type { World } from './test-support.ts'

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
  const stripe = new Stripe(key, {
    host: '127.0.0.1',
    port: world.simulator.port,
    protocol: 'http',
    telemetry: false,
  })
  const refusal = stripe.events.list()
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
      stripe.refunds.create({ charge: paid.charge }, other),
      stripe.checkout.sessions.expire(paid.session.id, {}, other),
    ]
    for (const result of await Promise.allSettled(looks)) {
      expect(result).toMatchObject({ reason: { statusCode: 404, code: 'resource_missing' } })
    }
    expect((await stripe.checkout.sessions.list({ payment_intent: paid.intent }, other)).data).toEqual([])
  }
})

test('a vendor that disconnects cannot be used, and can connect again', async () => {
  const account = 'acct_simLeaving'
  const { stripe, simulator } = world
  expect(await stripe.accounts.retrieve(account)).toMatchObject({ charges_enabled: true })
  await simulator.control('deauthorize', { account })
  for (const call of [
    stripe.accounts.retrieve(account),
    stripe.charges.list({}, { stripeAccount: account }),
  ]) {
    await expect(call).rejects.toBeInstanceOf(Stripe.errors.StripePermissionError)
  }
  await simulator.control('authorize', { account })
  expect(await stripe.accounts.retrieve(account)).toMatchObject({ id: account })
})

test('lists are paged newest first, forwards and backwards, and by the client’s automatic paging', async () => {
  await using own = await startWorld()
  const made: string[] = []
  for (let index = 0; index < 5; index += 1) {
    await own.simulator.control('clock', { now: 1_793_700_000 + index })
    made.unshift((await givenSession(own)).id)
  }
  const { sessions } = own.stripe.checkout
  const first = await sessions.list({ limit: 2 }, asVendor)
  expect(first).toMatchObject({ has_more: true })
  const second = await sessions.list({ limit: 2, starting_after: made[1] ?? '' }, asVendor)
  const back = await sessions.list({ limit: 2, ending_before: made[2] ?? '' }, asVendor)
  expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(made.slice(0, 4))
  expect(back.data).toEqual(first.data)
  const all: string[] = []
  for await (const session of sessions.list({ limit: 2 }, asVendor)) all.push(session.id)
  expect(all).toEqual(made)
  const recent = await sessions.list({ created: { gte: 1_793_700_003 } }, asVendor)
  expect(recent.data.map(({ id }) => id)).toEqual(made.slice(0, 2))
  await expect(sessions.list({ starting_after: 'cs_nobody' }, asVendor)).rejects.toThrow('No such')
})

test('references are expanded several levels deep, and in lists', async () => {
  const { stripe } = world
  const { charge, intent, session } = await givenPayment(world)
  await stripe.refunds.create({ charge, amount: 10 }, asVendor)
  const expand = ['payment_intent.latest_charge.refunds']
  const deep = await stripe.checkout.sessions.retrieve(session.id, { expand }, asVendor)
  expect(deep.payment_intent).toMatchObject({
    id: intent,
    latest_charge: { refunds: { data: [{ amount: 10 }] } },
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
  const first = await stripe.checkout.sessions.create(checkout(price), options)
  const again = await stripe.checkout.sessions.create(checkout(price), options)
  expect(again).toEqual(first)
  expect(again.lastResponse.headers['idempotent-replayed']).toBe('true')
  const other = stripe.checkout.sessions.create({ ...checkout(price), client_reference_id: 'x' }, options)
  await expect(other).rejects.toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
  await expect(other).rejects.toMatchObject({ statusCode: 400 })
  const elsewhere = { stripeAccount: 'acct_simOther', idempotencyKey: 'chk_twice' }
  await expect(stripe.checkout.sessions.create(checkout(price), elsewhere)).rejects.toThrow('No such price')
})

test('twenty concurrent calls with one key make one refund', async () => {
  const { charge } = await givenPayment(world)
  const refunds = await Promise.all(
    Array.from({ length: 20 }, () =>
      world.stripe.refunds.create({ charge, amount: 100 }, { ...asVendor, idempotencyKey: 'ref_1' }),
    ),
  )
  expect(new Set(refunds.map(({ id }) => id)).size).toBe(1)
  expect(await world.stripe.charges.retrieve(charge, {}, asVendor)).toMatchObject({ amount_refunded: 100 })
})

test('an error because of the state is saved under the key, an error in the parameters is not', async () => {
  const { stripe, simulator } = world
  const unknown = { ...asVendor, idempotencyKey: 'chk_unknown_price' }
  const create = () => stripe.checkout.sessions.create(checkout('price_new'), unknown)
  await expect(create()).rejects.toThrow('No such price')
  await simulator.control('set-price', {
    id: 'price_new',
    account: asVendor.stripeAccount,
    unit_amount: 50,
    currency: 'usd',
  })
  expect(await create()).toMatchObject({ amount_total: 50 })

  const { charge } = await givenPayment(world)
  const refund = { ...asVendor, idempotencyKey: 'ref_refused' }
  await simulator.control('refund', { charge })
  const refusals = [stripe.refunds.create({ charge }, refund), stripe.refunds.create({ charge }, refund)]
  for (const result of await Promise.allSettled(refusals)) {
    expect(result).toMatchObject({ reason: { code: 'charge_already_refunded' } })
  }
})

test.each([
  ['403', Stripe.errors.StripePermissionError, 403],
  ['429', Stripe.errors.StripeRateLimitError, 429],
  ['lock_timeout', Stripe.errors.StripeRateLimitError, 429],
  ['409', Stripe.errors.StripeAPIError, 409],
  ['500', Stripe.errors.StripeAPIError, 500],
  ['503', Stripe.errors.StripeAPIError, 503],
])(
  'an injected %s applies to the next call that matches, and to no other',
  async (answer, type, statusCode) => {
    const { stripe, simulator } = world
    await simulator.control('faults', { answer, path: '/v1/charges' })
    await stripe.refunds.list({}, asVendor)
    const spoilt = stripe.charges.list({}, asVendor)
    await expect(spoilt).rejects.toBeInstanceOf(type)
    await expect(spoilt).rejects.toMatchObject({ statusCode })
    await stripe.charges.list({}, asVendor)
  },
)

test.each(['hang', 'reset', 'timeout'])(
  'after a %s lost the answer, a repeat with the same key gets it',
  async (answer) => {
    const { stripe, simulator } = world
    const price = await givenPrice(simulator)
    const options = { ...asVendor, idempotencyKey: `chk_${answer}` }
    // The client itself tries a closed connection once more.
    const next = answer === 'hang' ? 1 : 2
    await simulator.control('faults', { answer, next, applied: true, delay_ms: 20, method: 'POST' })
    const lost = stripe.checkout.sessions.create(checkout(price), { ...options, timeout: 1_500 })
    await expect(lost).rejects.toBeInstanceOf(Stripe.errors.StripeConnectionError)
    const count = async () => (await stripe.checkout.sessions.list({ limit: 100 }, asVendor)).data.length
    const before = await count()
    const found = await stripe.checkout.sessions.create(checkout(price), options)
    expect(found.lastResponse.headers['idempotent-replayed']).toBe('true')
    expect(await count()).toBe(before)
  },
)

test('an error can be saved under the key, as Stripe does after an endpoint has begun to execute', async () => {
  const { stripe, simulator } = world
  const price = await givenPrice(simulator)
  const options = { ...asVendor, idempotencyKey: 'chk_saved_500' }
  await simulator.control('faults', { answer: '500', saved: true, applied: true, method: 'POST' })
  const create = () => stripe.checkout.sessions.create(checkout(price), options)
  await expect(create()).rejects.toMatchObject({ statusCode: 500 })
  await expect(create()).rejects.toMatchObject({ statusCode: 500 })
})

test('the client retries after two errors, and one session is created', async () => {
  const { simulator } = world
  const patient = clientOf(simulator, 2)
  await simulator.control('faults', { answer: '500', next: 2, method: 'POST' })
  const price = await givenPrice(simulator)
  const session = await patient.checkout.sessions.create(checkout(price), asVendor)
  const { data } = (await (await fetch(`${simulator.url}/_sim/requests`)).json()) as {
    data: { fault: string | null; status: number; idempotency_key: string }[]
  }
  const tries = data.slice(-3)
  expect(tries.map(({ status }) => status)).toEqual([500, 500, 200])
  expect(new Set(tries.map((each) => each.idempotency_key)).size).toBe(1)
  expect(session.status).toBe('open')
})

test('an unsupported path is refused with a message that says so', async () => {
  const response = await fetch(`${world.simulator.url}/v1/customers`)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({
    error: { message: expect.stringContaining('only a part of Stripe') },
  })
  await expect(world.simulator.control('nonsense')).rejects.toThrow('No such action')
  await expect(world.simulator.control('pay', { sesion: 'x' })).rejects.toThrow('unknown parameter: sesion')
})
