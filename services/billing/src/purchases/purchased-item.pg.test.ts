import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { afterEach, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled, licenceOf, paymentsOf, scope, sentTypes } from '../../test/shop.ts'
import {
  act,
  expectPaidPeriod,
  expiryOf,
  givenOtherPlan,
  givenRecurringPrice,
  givenSubscribed,
  itemsOf,
} from '../../test/subscribed.ts'

const harness = await sharedHarness()
const clearFaults = () => fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
afterEach(clearFaults)

fullTest(
  'a renewal whose line is behind ten others waits while the processor cannot be asked for it, and then moves the expiry',
  async () => {
    const customer = await givenSubscribed(harness)
    const { vendor } = customer
    const before = await expiryOf(harness, customer)
    await act(harness, customer, 'invoice-item', { count: 120 })
    const account = vendor.connectedAccount
    const fault = { answer: '503', until_cleared: true, path: '/v1/invoices', account }
    await harness.simulator.control('faults', fault)
    await act(harness, customer, 'renew')
    // After `maxUnanswered` attempts, billing decides other questions without an answer.
    await eventually(async () => {
      const [question] = await harness.sql<{ attempts: number }[]>`
      select attempts from processor_questions where account_id = ${vendor.accountId} and kind = 'invoice'`
      expect(question?.attempts).toBeGreaterThan(3)
    })
    await handled(harness, vendor)
    expect(await expiryOf(harness, customer)).toBe(before)
    expect(await paymentsOf(harness, vendor)).toHaveLength(2)
    await clearFaults()
    await harness.sql`
    update processor_questions set next_at = now() where account_id = ${vendor.accountId} and next_at is not null`
    await eventually(() => expectPaidPeriod(harness, customer))
  },
)

test('an add-on for a year beside a monthly licence does not change its end, with its own invoices and on the licence’s', async () => {
  const customer = await givenSubscribed(harness)
  const { vendor } = customer
  const addOn = await givenRecurringPrice(harness, vendor, 'year')
  await act(harness, customer, 'add-item', { price: addOn })
  await handled(harness, vendor)
  await expectPaidPeriod(harness, customer)
  // A payment for the add-on has a fee but is no cycle of the licence, so its refund does not change the licence.
  const charge = (await paymentsOf(harness, vendor)).find((payment) => payment.amount === 4980n)!.chargeRef
  await harness.simulator.control('refund', { charge })
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  await expectPaidPeriod(harness, customer)
  expect(await licenceOf(harness, vendor, customer.licenceId)).toMatchObject({ status: 'active' })
})

test('the plan follows the price of the item when that changes, for each later invoice', async () => {
  const customer = await givenSubscribed(harness)
  const { vendor, licenceId } = customer
  await act(harness, customer, 'add-item', { price: await givenRecurringPrice(harness, vendor) })
  const better = await givenOtherPlan(harness, vendor)
  await act(harness, customer, 'change-price', { price: better.priceId })
  await handled(harness, vendor)
  expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId: better.planId })
  expect(sentTypes(harness, vendor)).toContain('licence.plan_changed')
  // The plan is mapped to another price. The customer's price is no longer mapped, but the licence keeps its plan.
  const { planId } = better
  const price = { planId, priceId: 'price_new', amount: 1n, currency: 'jpy', mode: 'subscription' }
  await harness.billing.setPrice({ ...scope(vendor), price })
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId })
  await expectPaidPeriod(harness, customer)
})

test('the plan follows the price of an item that replaces it', async () => {
  const customer = await givenSubscribed(harness)
  const { vendor, licenceId } = customer
  await act(harness, customer, 'add-item', { price: await givenRecurringPrice(harness, vendor, 'year') })
  const better = await givenOtherPlan(harness, vendor)
  const [former] = await itemsOf(harness, customer)
  await act(harness, customer, 'add-item', { price: better.priceId, proration: 'create_prorations' })
  await act(harness, customer, 'remove-item', { item: former!.id, proration: 'create_prorations' })
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ planId: better.planId })
  const items = await itemsOf(harness, customer)
  const own = items.findIndex(({ price }) => price.id === better.priceId)
  await expectPaidPeriod(harness, customer, own)
})
