import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { handled, ledgerOf, licenceOf, paymentsOf, scope, sentTypes } from '../../test/shop.ts'
import {
  endWithGrace,
  expiryOf,
  givenOtherPlan,
  givenRecurringPrice,
  givenSubscribed,
  itemsOf,
  monthly,
} from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' }))

const act = (name: string, { subscription }: Subscribed, how: object = {}) =>
  harness.simulator.control(name, { subscription, ...how })

async function givenCustomer(): Promise<Subscribed> {
  return givenSubscribed(harness, await harness.givenVendor(monthly))
}

const day = 24 * 3_600
const now = Math.floor(Date.now() / 1000)

describe('a renewal', () => {
  test('whose line is behind ten others moves the expiry', async () => {
    const customer = await givenCustomer()
    await act('invoice-item', customer, { count: 120 })
    await act('renew', customer)
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    expect(await ledgerOf(harness, customer.vendor)).toHaveLength(2)
  })

  test('whose line the processor cannot be asked for waits, and moves the expiry when it can', async () => {
    const customer = await givenCustomer()
    const { vendor } = customer
    const before = await expiryOf(harness, customer)
    await act('invoice-item', customer, { count: 12 })
    const fault = {
      answer: '503',
      until_cleared: true,
      path: '/v1/invoices',
      account: vendor.connectedAccount,
    }
    await harness.simulator.control('faults', fault)
    await act('renew', customer)
    // After `maxUnanswered` attempts, billing decides other questions without an answer.
    await eventually(async () => {
      const [question] = await harness.sql<{ attempts: number }[]>`
        select attempts from processor_questions where account_id = ${vendor.accountId} and kind = 'invoice'`
      expect(question?.attempts).toBeGreaterThan(3)
    })
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(before)
    expect(await paymentsOf(harness, vendor)).toHaveLength(2)
    await fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
    await harness.sql`
      update processor_questions set next_at = now() where account_id = ${vendor.accountId} and next_at is not null`
    const end = await endWithGrace(harness, customer)
    await eventually(async () => expect(await expiryOf(harness, customer)).toBe(end))
  })

  test('beside three years of support, at a price that a plan is mapped to, is for a month of the same plan', async () => {
    const customer = await givenCustomer()
    const other = await givenOtherPlan(harness, customer.vendor)
    await act('invoice-item', customer, { amount: 90_000, price: other.priceId, end: now + 3 * 365 * day })
    await act('renew', customer)
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    expect(await licenceOf(harness, customer.vendor, customer.licenceId)).toMatchObject({
      planId: customer.vendor.planId,
    })
    expect(sentTypes(harness, customer.vendor)).not.toContain('licence.plan_changed')
  })
})

describe('an add-on for a year', () => {
  test('beside a monthly licence does not change the licence’s end, with its own invoices and on the licence’s', async () => {
    const customer = await givenCustomer()
    const { vendor } = customer
    const addOn = await givenRecurringPrice(harness, vendor, 'year')
    await act('add-item', customer, { price: addOn })
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    // A payment for the add-on has a fee but is no cycle of the licence, so its refund does not change the licence.
    const charge = (await paymentsOf(harness, vendor)).find((payment) => payment.amount === 4980n)!.chargeRef
    await harness.simulator.control('refund', { charge })
    await act('renew', customer)
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    expect(await licenceOf(harness, vendor, customer.licenceId)).toMatchObject({ status: 'active' })
  })

  test('that a plan is mapped to changes neither plan nor end of the licence beside it', async () => {
    const customer = await givenCustomer()
    const other = await givenOtherPlan(harness, customer.vendor, 'year')
    await act('add-item', customer, { price: other.priceId })
    await act('renew', customer)
    await handled(harness)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
    expect(await licenceOf(harness, customer.vendor, customer.licenceId)).toMatchObject({
      planId: customer.vendor.planId,
    })
  })
})

describe('the plan follows the price', () => {
  test('of the item when that changes, for each later invoice', async () => {
    const customer = await givenCustomer()
    const { vendor, licenceId } = customer
    await act('add-item', customer, { price: await givenRecurringPrice(harness, vendor) })
    const better = await givenOtherPlan(harness, vendor)
    await act('change-price', customer, { price: better.priceId })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId: better.planId })
    // The plan is mapped to another price. The customer's price is no longer mapped, but the licence keeps its plan.
    const price = {
      planId: better.planId,
      priceId: 'price_new',
      amount: 1n,
      currency: 'jpy',
      mode: 'subscription',
    }
    await harness.billing.setPrice({ ...scope(vendor), price })
    await act('renew', customer)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId: better.planId })
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
  })

  test('of an item that replaces it', async () => {
    const customer = await givenCustomer()
    const { vendor, licenceId } = customer
    await act('add-item', customer, { price: await givenRecurringPrice(harness, vendor, 'year') })
    const better = await givenOtherPlan(harness, vendor)
    const [former] = await itemsOf(harness, customer)
    await act('add-item', customer, { price: better.priceId, proration: 'create_prorations' })
    await act('remove-item', customer, { item: former!.id, proration: 'create_prorations' })
    await act('renew', customer)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId: better.planId })
    const items = await itemsOf(harness, customer)
    const own = items.findIndex(({ price }) => price.id === better.priceId)
    expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer, own))
  })
})

test('a trial of a subscription lasts as long as the trial, and then continues with the renewals', async () => {
  const customer = await givenCustomer()
  await act('trial', customer, { until: now + 60 * day })
  await handled(harness)
  expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
  await act('renew', customer)
  await handled(harness)
  expect(await expiryOf(harness, customer)).toBe(await endWithGrace(harness, customer))
})
