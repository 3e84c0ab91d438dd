import type { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asVendor, idOf, startWorld, vendor } from '../test/support.ts'
import type { World } from '../test/support.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const open = (
  price: string,
  metadata: Record<string, string>,
  mode: 'payment' | 'subscription' = 'payment',
): Promise<Stripe.Checkout.Session> =>
  world.stripe.checkout.sessions.create(
    { mode, line_items: [{ price, quantity: 1 }], success_url: 'http://127.0.0.1/thanks', metadata },
    asVendor,
  )

const agreed = { licensing_amount: '4900', licensing_currency: 'usd' }

test('an unknown price has the amount and currency of the session’s metadata, which later metadata may change', async () => {
  const session = await open('price_agreed', { ...agreed, other: 'kept' })
  expect(session).toMatchObject({
    amount_total: 4900,
    currency: 'usd',
    metadata: { ...agreed, other: 'kept' },
  })
  const later = await open('price_agreed', { licensing_amount: '2980', licensing_currency: 'jpy' })
  expect(later).toMatchObject({ amount_total: 2980, currency: 'jpy' })
})

test('a subscription renews at the interval of the metadata', async () => {
  const { id } = await open(
    'price_quarter',
    { ...agreed, licensing_recurring_interval_count: '3' },
    'subscription',
  )
  await world.simulator.control('pay', { session: id, created: Date.UTC(2026, 0, 31) / 1000 })
  const session = await world.stripe.checkout.sessions.retrieve(id, {}, asVendor)
  const subscription = await world.stripe.subscriptions.retrieve(idOf(session.subscription), {}, asVendor)
  expect(subscription.items.data[0]).toMatchObject({
    price: { recurring: { interval: 'month', interval_count: 3 } },
    current_period_end: Date.UTC(2026, 3, 30) / 1000,
  })
})

test.each([
  ['before', true],
  ['after a session', false],
])('a price that the vendor has set %s takes precedence over the metadata', async (_, isBefore) => {
  const id = `price_${isBefore ? 'before' : 'after'}`
  if (!isBefore) await open(id, agreed)
  await world.simulator.control('set-price', { id, account: vendor, unit_amount: 9900, currency: 'eur' })
  expect(await open(id, agreed)).toMatchObject({ amount_total: 9900, currency: 'eur' })
})

test('an inactive price and a price of the other mode are refused, whatever the metadata says', async () => {
  const retired = { id: 'price_retired', account: vendor, active: false, unit_amount: 4900, currency: 'usd' }
  await world.simulator.control('set-price', retired)
  await expect(open('price_retired', agreed)).rejects.toMatchObject({
    statusCode: 400,
    param: 'line_items[0][price]',
    message: 'The price specified is inactive. This field only accepts active prices.',
  })
  const recurring = { ...agreed, licensing_recurring_interval_count: '1' }
  await expect(open('price_wrong_mode', recurring)).rejects.toThrow('passed a recurring price')
  await expect(open('price_wrong_mode', agreed, 'subscription')).rejects.toThrow('recurring')
})

test.each([
  {},
  { licensing_amount: '4900' },
  { licensing_currency: 'usd' },
  { licensing_amount: '49.00', licensing_currency: 'usd' },
  { licensing_amount: '4900', licensing_currency: 'USD' },
  { ...agreed, licensing_recurring_interval_count: '0' },
])('metadata %j sets no price', async (metadata) => {
  await expect(open('price_of_nobody', metadata)).rejects.toMatchObject({ statusCode: 400 })
})
