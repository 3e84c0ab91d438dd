import { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  chargesOf,
  eventsOf,
  givenPayment,
  givenPrice,
  givenSession,
  startWorld,
  vendor,
} from '../test/support.ts'
import type { OpenCheckout, World } from '../test/support.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

test('a session created by the official client is open and simulated and has the amount of its price', async () => {
  const session = await givenSession(world, { metadata: { sid: 'chk_1' } })
  expect(session).toMatchObject({
    status: 'open',
    payment_status: 'unpaid',
    livemode: false,
    amount_total: 4900,
    currency: 'usd',
    client_reference_id: 'cust-1001',
    metadata: { sid: 'chk_1' },
    url: `${world.simulator.url}/pay/${session.id}`,
  })
  expect(session.id).toMatch(/^cs_test_sim/)
  expect(session.expires_at - session.created).toBe(24 * 3600)
})

test('metadata of the payment is copied to intent and charge, metadata of the session is not', async () => {
  const { intent, charge, session } = await givenPayment(world, {
    metadata: { of: 'session' },
    payment_intent_data: { metadata: { of: 'payment' }, application_fee_amount: 245 },
  })
  const paid = await world.stripe.paymentIntents.retrieve(intent, { expand: ['latest_charge'] }, asVendor)
  expect(session).toMatchObject({ status: 'complete', payment_status: 'paid', url: null })
  expect(paid).toMatchObject({ status: 'succeeded', amount_received: 4900, metadata: { of: 'payment' } })
  expect(paid.latest_charge).toMatchObject({
    id: charge,
    metadata: { of: 'payment' },
    application_fee_amount: 245,
    amount_captured: 4900,
  })
})

test('the application fee belongs to the platform, and so does its event', async () => {
  const { charge } = await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } })
  const fees = await world.stripe.applicationFees.list({ charge })
  expect(fees.data).toMatchObject([{ account: vendor, amount: 245, charge }])
  const asOther = await world.stripe.applicationFees.list({ charge }, asVendor)
  expect(asOther.data).toEqual([])
  await world.simulator.settled()
  const event = eventsOf(world.receiver, 'application_fee.created').at(-1)
  expect(event).toMatchObject({ data: { object: { charge } } })
  expect(event).not.toHaveProperty('account')
})

test('a delayed payment completes unpaid, and succeeds or fails later', async () => {
  const { simulator, stripe } = world
  const [good, bad] = [await givenSession(world), await givenSession(world)]
  for (const { id } of [good, bad]) {
    const session = await simulator.control('pay', { session: id, method: 'delayed' })
    expect(session).toMatchObject({ status: 'complete', payment_status: 'unpaid' })
  }
  await simulator.control('pay', { session: good.id })
  await simulator.control('fail', { session: bad.id })
  const expand = { expand: ['payment_intent'] }
  const paid = await stripe.checkout.sessions.retrieve(good.id, expand, asVendor)
  const unpaid = await stripe.checkout.sessions.retrieve(bad.id, expand, asVendor)
  expect(paid).toMatchObject({ payment_status: 'paid', payment_intent: { status: 'succeeded' } })
  expect(unpaid).toMatchObject({
    payment_status: 'unpaid',
    payment_intent: { status: 'requires_payment_method' },
  })
  await simulator.settled()
  const last = world.receiver.types().slice(-2)
  expect(last.toSorted()).toEqual([
    'checkout.session.async_payment_failed',
    'checkout.session.async_payment_succeeded',
  ])
})

test('after a declined card the session stays open, and the next attempt pays it with the same intent', async () => {
  const { simulator, stripe } = world
  const { id } = await givenSession(world)
  const declined = await simulator.control('fail', { session: id })
  expect(declined['status']).toBe('open')
  await simulator.control('pay', { session: id })
  const session = await stripe.checkout.sessions.retrieve(id, {}, asVendor)
  expect(session).toMatchObject({ status: 'complete', payment_intent: declined['payment_intent'] })
  const charges = await chargesOf(world, session.payment_intent)
  expect(charges.map(({ status }) => status).toSorted()).toEqual(['failed', 'succeeded'])
})

test('a discount of everything needs no payment and makes no charge', async () => {
  const { id } = await givenSession(world)
  const session = await world.simulator.control('pay', { session: id, discount: 4900 })
  expect(session).toMatchObject({
    amount_total: 0,
    payment_status: 'no_payment_required',
    payment_intent: null,
  })
})

test('an expired session can be neither paid nor expired again', async () => {
  const { id } = await givenSession(world)
  const { simulator, stripe } = world
  const expired = await stripe.checkout.sessions.expire(id, {}, asVendor)
  expect(expired).toMatchObject({ status: 'expired', url: null })
  await expect(simulator.control('pay', { session: id })).rejects.toThrow('is expired')
  await expect(simulator.control('expire', { session: id })).rejects.toThrow('a status of `expired`')
})

test('a session keeps the prices that it was opened with', async () => {
  const { simulator } = world
  const price = { id: 'price_mine', account: vendor, unit_amount: 100, currency: 'usd', recurring: null }
  const first = await simulator.control('set-price', price)
  expect(await simulator.control('set-price', price)).toEqual(first)
  const open = await givenSession(world, { line_items: [{ price: price.id, quantity: 3 }] })
  await simulator.control('set-price', { ...price, unit_amount: 200 })
  expect((await givenSession(world, { price: price.id })).amount_total).toBe(200)
  expect(await simulator.control('pay', { session: open.id })).toMatchObject({ amount_total: 300 })
})

test.each([
  ['usd', 50],
  ['jpy', 50],
  ['gbp', 30],
  ['czk', 1500],
])('the least amount in %s is %i, unless the checkout is free', async (currency, least) => {
  const of = (amount: number) => givenPrice(world.simulator, { currency, amount })
  const refusal = givenSession(world, { price: await of(least - 1) })
  await expect(refusal).rejects.toMatchObject({ statusCode: 400, code: 'amount_too_small' })
  expect(await givenSession(world, { price: await of(least) })).toMatchObject({ amount_total: least })
  expect(await givenSession(world, { price: await of(0) })).toMatchObject({ amount_total: 0 })
})

test('an asynchronous capture has neither balance transaction nor application fee until it is ended', async () => {
  await using own = await startWorld(['charge.succeeded', 'charge.updated'])
  const { simulator, stripe, receiver } = own
  await simulator.control('settings', { account: vendor, capture: 'asynchronous' })
  const withFee = { payment_intent_data: { application_fee_amount: 245 } }
  const { charge } = await givenPayment(own, withFee)
  await simulator.settled()
  expect(eventsOf(receiver, 'charge.succeeded')[0]?.data.object).toMatchObject({
    amount_captured: 4900,
    balance_transaction: null,
    application_fee: null,
    application_fee_amount: 245,
  })
  expect(eventsOf(receiver, 'charge.updated')).toEqual([])
  await simulator.control('capture', { charge, created: 1_793_703_600 })
  await simulator.settled()
  const [fee] = (await stripe.applicationFees.list({ charge })).data
  expect(fee).toMatchObject({ amount: 245, created: 1_793_703_600 })
  expect(eventsOf(receiver, 'charge.updated')[0]).toMatchObject({
    created: 1_793_703_600,
    data: {
      object: { id: charge, application_fee: fee?.id, balance_transaction: expect.stringMatching(/^txn_/) },
      previous_attributes: { balance_transaction: null },
    },
  })
  await expect(simulator.control('capture', { charge })).rejects.toThrow('no capture')
})

const refused: [why: string, params: OpenCheckout & Record<string, unknown>, message: string][] = [
  ['an unknown price', { price: 'price_nobody' }, "No such price: 'price_nobody'"],
  ['no line', { line_items: [] }, 'Missing required param: line_items'],
  ['no mode', { mode: undefined } as never, 'Missing required param: mode'],
  ['a fee above the amount', { payment_intent_data: { application_fee_amount: 4901 } }, 'fee'],
  [
    'data of the other mode',
    { subscription_data: { metadata: { a: 'b' } } },
    'You can not pass `subscription_data` in `payment` mode.',
  ],
  [
    'a parameter Stripe dropped',
    { payment_method_types: ['card'] },
    'unknown parameter: payment_method_types',
  ],
  ['a success page that is no URL', { success_url: 'thanks' }, 'Not a valid URL: success_url'],
  ['a long reference', { client_reference_id: 'x'.repeat(201) }, 'at most 200 characters'],
  ['an empty reference', { client_reference_id: '' }, 'empty string'],
  ['a recurring price in payment mode', { price: 'price_jpy_2980_month' }, 'recurring price'],
]

test.each(refused)('a session with %s is refused as Stripe does', async (_why, params, message) => {
  await givenPrice(world.simulator, { amount: 2980, currency: 'jpy', recurring: 'month' })
  const refusal = givenSession(world, params)
  await expect(refusal).rejects.toBeInstanceOf(Stripe.errors.StripeInvalidRequestError)
  await expect(refusal).rejects.toMatchObject({ statusCode: 400 })
  await expect(refusal).rejects.toThrow(message)
})
