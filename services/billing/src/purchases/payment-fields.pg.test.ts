import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { createHash } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { addMonths } from '../calendar.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  givenSold,
  handled,
  licenceOf,
  licencesOf,
  openCheckout,
  pay,
  paymentsOf,
  scope,
} from '../../test/shop.ts'
import { act, alertsOf, givenOtherPlan, givenSubscribed, monthly } from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(() => fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' }))

const monthlyWith = (updatesMonths: number) => ({ price: { ...monthly.price, updatesMonths } })

async function updatesOf(vendor: Vendor, licenceId: string): Promise<Date | undefined> {
  const { updatesUntil } = await licenceOf(harness, vendor, licenceId)
  return updatesUntil && timestampDate(updatesUntil)
}

const setPrice = (vendor: Vendor, price: object) =>
  harness.billing.setPrice({
    ...scope(vendor),
    price: {
      planId: vendor.planId,
      priceId: vendor.priceId,
      amount: 4900n,
      currency: 'usd',
      mode: 'payment',
      ...price,
    },
  })

describe('a checkout', () => {
  test('includes updates for the months that its price had when the checkout was opened, from the payment', async () => {
    const vendor = await harness.givenVendor({ price: { updatesMonths: 1 } })
    const session = await openCheckout(harness, vendor)
    await setPrice(vendor, { updatesMonths: 24 })
    await pay(harness, session, { created: Date.UTC(2027, 0, 31, 10) / 1000 })
    await handled(harness)
    const [licence] = await licencesOf(harness, vendor)
    expect(await updatesOf(vendor, licence!.id)).toEqual(new Date(Date.UTC(2027, 1, 28, 10)))
    await givenSold(harness, vendor, { created: Date.UTC(2027, 0, 31, 10) / 1000 })
    expect(await updatesOf(vendor, licence!.id)).toEqual(new Date(Date.UTC(2029, 0, 31, 10)))
  })

  test('gives its metadata to the licence, and does not limit updates if its price has no months', async () => {
    const vendor = await harness.givenVendor()
    const metadata = { source: 'newsletter', 'crm.id': '7' }
    const session = await openCheckout(harness, vendor, { metadata: { entries: metadata } })
    await pay(harness, session)
    await handled(harness)
    const [licence] = await licencesOf(harness, vendor)
    expect(licence).toMatchObject({ metadata })
    expect(licence!.updatesUntil).toBeUndefined()
  })

  test.each([
    ['a name that is not allowed', { 'a b': 'x' }, '/metadata/a b'],
    ['a value that is too long', { a: 'x'.repeat(501) }, '/metadata/a'],
    [
      'too many entries',
      Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`n${at}`, ''])),
      '/metadata',
    ],
  ])('is refused with metadata that has %s, and leaves nothing behind', async (_, entries, pointer) => {
    const vendor = await harness.givenVendor()
    const opening = openCheckout(harness, vendor, { metadata: { entries } })
    await expect(opening).rejects.toMatchObject({ code: 'validation_failed', errors: [{ pointer }] })
    const [count] = await harness.sql`
      select count(*)::int as sessions from checkout_sessions where account_id = ${vendor.accountId}`
    expect(count).toEqual({ sessions: 0 })
  })
})

describe('a renewal', () => {
  /** The time of the licence's latest payment plus so many months. */
  async function latestPlus({ vendor, licenceId }: Subscribed, months: number): Promise<Date> {
    const own = (await paymentsOf(harness, vendor)).filter((payment) => payment.licenceId === licenceId)
    const times = own.map(({ occurredAt }) => timestampDate(occurredAt!).getTime())
    return addMonths(new Date(Math.max(...times)), months)
  }

  test('includes updates for the months of its price', async () => {
    const vendor = await harness.givenVendor(monthlyWith(2))
    const customer = await givenSubscribed(harness, vendor)
    for (let month = 0; month < 3; month += 1) {
      await handled(harness)
      expect(await updatesOf(vendor, customer.licenceId)).toEqual(await latestPlus(customer, 2))
      await act(harness, customer, 'renew')
    }
    await handled(harness)
  })

  test('at another price includes the months of that price', async () => {
    const vendor = await harness.givenVendor(monthlyWith(2))
    const other = await givenOtherPlan(harness, vendor)
    await setPrice(other, { amount: 4980n, currency: 'jpy', mode: 'subscription', updatesMonths: 12 })
    const customer = await givenSubscribed(harness, vendor)
    await act(harness, customer, 'change-price', { price: other.priceId, proration: 'none' })
    await act(harness, customer, 'renew')
    await handled(harness)
    expect(await updatesOf(vendor, customer.licenceId)).toEqual(await latestPlus(customer, 12))
  })

  test('of a plan that is no longer sold includes the months that its checkout sold', async () => {
    const vendor = await harness.givenVendor(monthlyWith(2))
    const customer = await givenSubscribed(harness, vendor)
    await harness.billing.deletePrice(vendor)
    await act(harness, customer, 'renew')
    await handled(harness)
    expect(await updatesOf(vendor, customer.licenceId)).toEqual(await latestPlus(customer, 2))
  })
})

describe('a sale of another shop', () => {
  const occurredAt = timestampFromDate(new Date(Date.UTC(2026, 0, 31, 9)))
  const given = timestampFromDate(new Date(Date.UTC(2031, 5, 1)))

  let sales = 0
  const record = (vendor: Vendor, sale: Partial<Parameters<Harness['billing']['recordSaleEvent']>[0]>) =>
    harness.billing.recordSaleEvent({
      ...scope(vendor),
      saleId: `order-${(sales += 1)}`,
      externalRef: `cust-${sales}`,
      amount: 4900n,
      currency: 'usd',
      occurredAt,
      bodyHash: createHash('sha256')
        .update(JSON.stringify(Object.keys(sale)))
        .digest(),
      ...sale,
    })

  test.each([
    ['names a price', { byPrice: true }, new Date(Date.UTC(2027, 0, 31, 9))],
    ['names a plan', { byPrice: false }, undefined],
    ['names a price and a time of its own', { byPrice: true, updatesUntil: given }, timestampDate(given)],
    ['names a plan and a time of its own', { byPrice: false, updatesUntil: given }, timestampDate(given)],
  ])('that %s includes updates accordingly', async (_, { byPrice, ...sale }, until) => {
    const vendor = await harness.givenVendor({ price: { updatesMonths: 12 } })
    const sold = byPrice ? { priceId: vendor.priceId } : { planId: vendor.planId }
    const { saleEvent } = await record(vendor, { ...sold, ...sale })
    expect(await updatesOf(vendor, saleEvent!.licenceId!)).toEqual(until)
  })

  test('that names a plan does not change the limit of updates of a licence, and adds its metadata', async () => {
    const vendor = await harness.givenVendor({ price: { updatesMonths: 12 } })
    const first = { externalRef: 'cust', priceId: vendor.priceId, metadata: { entries: { a: '1', b: '1' } } }
    await record(vendor, first)
    const later = timestampFromDate(new Date(Date.UTC(2026, 6, 1)))
    const second = { externalRef: 'cust', planId: vendor.planId, metadata: { entries: { b: '2' } } }
    const { saleEvent } = await record(vendor, { ...second, occurredAt: later })
    const licence = await licenceOf(harness, vendor, saleEvent!.licenceId!)
    expect(licence.metadata).toEqual({ a: '1', b: '2' })
    expect(timestampDate(licence.updatesUntil!)).toEqual(new Date(Date.UTC(2027, 0, 31, 9)))
  })

  test('that is refused because of its plan adds its metadata when it is sent again after the restore', async () => {
    const vendor = await harness.givenVendor()
    await harness.changePlan(vendor.planId, 'retired')
    const sale = {
      saleId: 'again',
      planId: vendor.planId,
      metadata: { entries: { a: '1' } },
      updatesUntil: given,
    }
    expect(await record(vendor, sale)).toMatchObject({ saleEvent: { status: 'provision_failed' } })
    await harness.changePlan(vendor.planId, 'active')
    expect(await record(vendor, sale)).toMatchObject({ saleEvent: { status: 'provisioned' } })
    expect(await licencesOf(harness, vendor)).toMatchObject([{ metadata: { a: '1' }, updatesUntil: given }])
  })

  test('with metadata that is not allowed is refused and not recorded', async () => {
    const vendor = await harness.givenVendor()
    const sale = { saleId: 'refused', planId: vendor.planId }
    await expect(record(vendor, { ...sale, metadata: { entries: { 'a/b': 'x' } } })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/metadata/a~1b' }],
    })
    expect(await paymentsOf(harness, vendor)).toEqual([])
    expect(await record(vendor, sale)).toMatchObject({ created: true })
  })
})

describe('a subscription', () => {
  /** Whether licensing knows it as a subscription that will be charged again. */
  async function renews({ session }: Pick<Subscribed, 'session'>): Promise<boolean> {
    const [row] = await harness.licensingSql<{ renews: boolean }[]>`
      select renews from purchases where purchase_ref = ${session.id}`
    return row!.renews
  }
  const eventuallyRenews = (customer: Subscribed, expected: boolean) =>
    eventually(async () => expect(await renews(customer)).toBe(expected))

  test('that is cancelled for the end of its period does not renew, until that is undone', async () => {
    const vendor = await harness.givenVendor(monthly)
    const customer = await givenSubscribed(harness, vendor)
    expect(await renews(customer)).toBe(true)
    const before = await licenceOf(harness, vendor, customer.licenceId)
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await eventuallyRenews(customer, false)
    await act(harness, customer, 'cancel', { when: 'undo' })
    await eventuallyRenews(customer, true)
    await handled(harness)
    expect(await licenceOf(harness, vendor, customer.licenceId)).toEqual(before)
    await act(harness, customer, 'renew')
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await eventuallyRenews(customer, false)
    await act(harness, customer, 'renew')
    await handled(harness)
    expect(await renews(customer)).toBe(false)
    expect((await licenceOf(harness, vendor, customer.licenceId)).status).toBe('expired')
  })

  test('whose events arrive backwards, each several times, ends in its latest state', async () => {
    const vendor = await harness.givenVendor(monthly)
    const customer = await givenSubscribed(harness, vendor)
    await handled(harness)
    const account = vendor.connectedAccount
    await harness.simulator.control('delivery-rules', { action: 'hold', account })
    for (const when of ['period_end', 'undo', 'period_end']) await act(harness, customer, 'cancel', { when })
    await harness.simulator.control('release', { order: 'reversed' })
    await handled(harness)
    expect(await renews(customer)).toBe(false)
    await harness.simulator.control('delivery-rules', { action: 'duplicate', times: 3, account })
    await act(harness, customer, 'cancel', { when: 'undo' })
    await handled(harness)
    expect(await renews(customer)).toBe(true)
  })

  test('renews and ends as before if the account’s webhook endpoint does not get these events', async () => {
    const vendor = await harness.givenVendor(monthly)
    const customer = await givenSubscribed(harness, vendor)
    const types = ['customer.subscription.updated']
    await harness.simulator.control('delivery-rules', {
      action: 'drop',
      types,
      account: vendor.connectedAccount,
    })
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await act(harness, customer, 'renew')
    await handled(harness)
    expect((await licenceOf(harness, vendor, customer.licenceId)).status).toBe('expired')
    expect(await renews(customer)).toBe(false)
    expect(alertsOf(harness, vendor)).toEqual([])
  })
})

test('a single payment does not renew', async () => {
  const vendor = await harness.givenVendor()
  const { session } = await givenSold(harness, vendor)
  const rows = await harness.licensingSql`select renews from purchases where purchase_ref = ${session.id}`
  expect([...rows]).toEqual([{ renews: false }])
})
