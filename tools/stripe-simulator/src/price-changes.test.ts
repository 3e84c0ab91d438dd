import type { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  chargesOf,
  eventsOf,
  givenPrice,
  givenSubscription,
  invoicesOf,
  startWorld,
} from '../test/support.ts'
import type { World } from '../test/support.ts'

const started = Date.UTC(2027, 0, 1) / 1000
const firstEnd = Date.UTC(2027, 1, 1) / 1000
/** Half of January. */
const half = (started + firstEnd) / 2

let world: World
let low: string
let high: string
let yearly: string
beforeAll(async () => {
  world = await startWorld()
  low = await givenPrice(world.simulator, { amount: 1000, recurring: 'month' })
  high = await givenPrice(world.simulator, { amount: 3000, recurring: 'month' })
  yearly = await givenPrice(world.simulator, { amount: 20_000, recurring: 'year' })
})
afterAll(() => world[Symbol.asyncDispose]())

const change = (subscription: string, price: string, how: object = {}) =>
  world.simulator.control('change-price', { subscription, price, created: half, ...how })

const prices = (invoice: Stripe.Invoice | undefined) =>
  invoice?.lines.data.map(({ amount, pricing, parent }) => ({
    amount,
    price: pricing?.price_details?.price,
    proration: parent?.subscription_item_details?.proration,
  }))

test('an upgrade is invoiced at once: the rest of the period is credited at the old price and charged at the new', async () => {
  const { subscription, session } = await givenSubscription(world, {
    created: started,
    price: low,
    subscription_data: { application_fee_percent: 5, metadata: { sid: 'chk_up' } },
  })
  await change(subscription, high)
  const [invoice, first] = await invoicesOf(world, subscription)
  expect(invoice).toMatchObject({
    billing_reason: 'subscription_update',
    status: 'paid',
    created: half,
    amount_paid: 1000,
    parent: { subscription_details: { subscription, metadata: { sid: 'chk_up' } } },
  })
  expect(prices(invoice)).toEqual([
    { amount: -500, price: low, proration: true },
    { amount: 1500, price: high, proration: true },
  ])
  expect(invoice?.lines.data.map(({ period }) => period)).toEqual([
    { start: half, end: firstEnd },
    { start: half, end: firstEnd },
  ])
  expect(invoice?.lines.data[0]?.parent?.subscription_item_details?.proration_details).toEqual({
    credited_items: { invoice: session.invoice, invoice_line_items: [first?.lines.data[0]?.id] },
  })
  const [charge] = await chargesOf(world, invoice?.customer)
  expect(charge).toMatchObject({ amount: 1000, application_fee_amount: 50, created: half })
})

test('the event has the previous values, and the subscription renews at the new price on the old day', async () => {
  const { subscription } = await givenSubscription(world, { price: low, created: started })
  await change(subscription, high)
  await world.simulator.settled()
  const event = eventsOf(world.receiver, 'customer.subscription.updated').find(
    ({ data }) => Object(data.object).id === subscription,
  )
  expect(event?.data).toMatchObject({
    object: { items: { data: [{ price: { id: high }, plan: { id: high } }] } },
    previous_attributes: { items: { data: [{ price: { id: low } }] } },
  })
  await world.simulator.control('renew', { subscription })
  const [renewal] = await invoicesOf(world, subscription)
  expect(renewal).toMatchObject({
    created: firstEnd,
    billing_reason: 'subscription_cycle',
    amount_paid: 3000,
  })
  expect(prices(renewal)).toEqual([{ amount: 3000, price: high, proration: false }])
})

test('a downgrade costs nothing, and the next invoices use its credit', async () => {
  const { subscription } = await givenSubscription(world, { price: high, created: started })
  await change(subscription, low)
  const [down] = await invoicesOf(world, subscription)
  expect(down).toMatchObject({
    billing_reason: 'subscription_update',
    status: 'paid',
    total: -1000,
    amount_due: 0,
    amount_paid: 0,
    starting_balance: 0,
    ending_balance: -1000,
  })
  await world.simulator.control('renew', { subscription })
  await world.simulator.control('renew', { subscription })
  const [second, first] = await invoicesOf(world, subscription)
  expect(first).toMatchObject({ total: 1000, amount_paid: 0, starting_balance: -1000, ending_balance: 0 })
  expect(second).toMatchObject({ total: 1000, amount_paid: 1000, starting_balance: 0 })
})

test('with create_prorations the next invoice has lines of both prices, and with none only of the new', async () => {
  const { subscription } = await givenSubscription(world, { price: low, created: started })
  await change(subscription, high, { proration: 'create_prorations' })
  expect(await invoicesOf(world, subscription)).toHaveLength(1)
  await world.simulator.control('renew', { subscription })
  const [renewal] = await invoicesOf(world, subscription)
  expect(renewal).toMatchObject({ billing_reason: 'subscription_cycle', amount_paid: 4000 })
  expect(prices(renewal)).toEqual([
    { amount: -500, price: low, proration: true },
    { amount: 1500, price: high, proration: true },
    { amount: 3000, price: high, proration: false },
  ])
  expect(renewal?.lines.data.every((line) => line.invoice === renewal.id)).toBe(true)

  await change(subscription, low, { proration: 'none', created: firstEnd + 3600 })
  expect(await invoicesOf(world, subscription)).toHaveLength(2)
  await world.simulator.control('renew', { subscription })
  expect(prices((await invoicesOf(world, subscription))[0])).toEqual([
    { amount: 1000, price: low, proration: false },
  ])
})

test('another interval begins a new period at once', async () => {
  const { subscription } = await givenSubscription(world, { price: low, created: started })
  await change(subscription, yearly)
  const [invoice] = await invoicesOf(world, subscription)
  expect(prices(invoice)).toEqual([
    { amount: -500, price: low, proration: true },
    { amount: 20_000, price: yearly, proration: false },
  ])
  const found = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
  expect(found.billing_cycle_anchor).toBe(half)
  expect(found.items.data[0]).toMatchObject({
    current_period_start: half,
    current_period_end: Date.UTC(2028, 0, 16, 12) / 1000,
  })
})

test('a price in another currency, and a price that is not recurring, are refused', async () => {
  const { subscription } = await givenSubscription(world, { price: low, created: started })
  for (const price of [
    await givenPrice(world.simulator, { amount: 900, currency: 'eur', recurring: 'month' }),
    await givenPrice(world.simulator, { amount: 900 }),
  ]) {
    await expect(change(subscription, price)).rejects.toThrow('no recurring price in usd')
  }
})
