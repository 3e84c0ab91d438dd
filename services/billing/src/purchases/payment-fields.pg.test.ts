import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { eventually } from '@licensing/test-support/poll'
import { describe, expect, test } from 'vitest'
import { addMonths } from '../calendar.ts'
import { sharedHarness } from '../../test/harness.ts'
import {
  dropEvents,
  givenSold,
  handled,
  licenceOf,
  licencesOf,
  openCheckout,
  pay,
  paymentsOf,
  recordSale,
  scope,
} from '../../test/shop.ts'
import { act, alertsOf, givenOtherPlan, givenSubscribed, monthly } from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

const monthlyWith = (updatesMonths: number) => ({ price: { ...monthly.price, updatesMonths } })

async function updatesOf(vendor: Vendor, licenceId: string): Promise<Date | undefined> {
  const { updatesUntil } = await licenceOf(harness, vendor, licenceId)
  return updatesUntil && timestampDate(updatesUntil)
}

const setPrice = (vendor: Vendor, price: object) => {
  const { planId, priceId } = vendor
  const before = { planId, priceId, amount: 4900n, currency: 'usd', mode: 'payment' }
  return harness.billing.setPrice({ ...scope(vendor), price: { ...before, ...price } })
}

describe('a checkout', () => {
  test('includes updates for the months that its price had when the checkout was opened, from the payment', async () => {
    const vendor = await harness.givenVendor({ price: { updatesMonths: 1 } })
    const session = await openCheckout(harness, vendor)
    await setPrice(vendor, { updatesMonths: 24 })
    await pay(harness, session, { created: Date.UTC(2027, 0, 31, 10) / 1000 })
    await handled(harness, vendor)
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
    await handled(harness, vendor)
    const [licence] = await licencesOf(harness, vendor)
    expect(licence).toMatchObject({ metadata })
    expect(licence!.updatesUntil).toBeUndefined()
  })

  const tooMany = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`n${at}`, '']))
  test.each([
    ['a name that is not allowed', { 'a b': 'x' }, '/metadata/a b'],
    ['a value that is too long', { a: 'x'.repeat(501) }, '/metadata/a'],
    ['too many entries', tooMany, '/metadata'],
  ])('is refused with metadata that has %s, and leaves nothing behind', async (_, entries, pointer) => {
    const vendor = await harness.givenVendor()
    const opening = openCheckout(harness, vendor, { metadata: { entries } })
    await expect(opening).rejects.toMatchObject({ code: 'validation_failed', errors: [{ pointer }] })
    const rows = await harness.sql`select from checkout_sessions where account_id = ${vendor.accountId}`
    expect(rows).toHaveLength(0)
  })
})

describe('a renewal', () => {
  async function expectUpdates({ vendor, licenceId }: Subscribed, months: number): Promise<void> {
    await handled(harness, vendor)
    const times = (await paymentsOf(harness, vendor)).map(({ occurredAt }) => timestampDate(occurredAt!))
    const latest = new Date(Math.max(...times.map((time) => time.getTime())))
    expect(await updatesOf(vendor, licenceId)).toEqual(addMonths(latest, months))
  }

  test('includes updates for the months of its price, and at another price for the months of that price', async () => {
    const vendor = await harness.givenVendor(monthlyWith(2))
    const other = await givenOtherPlan(harness, vendor)
    await setPrice(other, { amount: 4980n, currency: 'jpy', mode: 'subscription', updatesMonths: 12 })
    const customer = await givenSubscribed(harness, vendor)
    await expectUpdates(customer, 2)
    await act(harness, customer, 'renew')
    await expectUpdates(customer, 2)
    await act(harness, customer, 'change-price', { price: other.priceId, proration: 'none' })
    await act(harness, customer, 'renew')
    await expectUpdates(customer, 12)
  })

  test('of a plan that is no longer sold includes the months that its checkout sold', async () => {
    const customer = await givenSubscribed(harness, await harness.givenVendor(monthlyWith(2)))
    await harness.billing.deletePrice(customer.vendor)
    await act(harness, customer, 'renew')
    await expectUpdates(customer, 2)
  })
})

describe('a sale of another shop', () => {
  const given = timestampFromDate(new Date(Date.UTC(2031, 5, 1)))

  test('includes updates for the months of a price that it names, or until a time that it gives', async () => {
    const vendor = await harness.givenVendor({ price: { updatesMonths: 12 } })
    const { planId, priceId } = vendor
    const sales = [
      [{ priceId }, new Date(Date.UTC(2027, 0, 31, 9))],
      [{ planId }, undefined],
      [{ priceId, updatesUntil: given }, timestampDate(given)],
      [{ planId, updatesUntil: given }, timestampDate(given)],
    ] as const
    for (const [at, [sale, until]] of sales.entries()) {
      const own = { ...sale, saleId: `order-${at}`, externalRef: `cust-${at}` }
      const { saleEvent } = await recordSale(harness, vendor, own)
      expect(await updatesOf(vendor, saleEvent!.licenceId!)).toEqual(until)
    }
  })

  test('that is refused because of its plan adds its metadata when it is sent again after the restore', async () => {
    const vendor = await harness.givenVendor()
    const { planId } = vendor
    await harness.changePlan(planId, 'retired')
    const sale = { metadata: { entries: { a: '1' } }, updatesUntil: given }
    expect(await recordSale(harness, vendor, sale)).toMatchObject({
      saleEvent: { status: 'provision_failed' },
    })
    await harness.changePlan(planId, 'active')
    expect(await recordSale(harness, vendor, sale)).toMatchObject({ saleEvent: { status: 'provisioned' } })
    expect(await licencesOf(harness, vendor)).toMatchObject([{ metadata: { a: '1' }, updatesUntil: given }])
  })
})

/** Whether licensing knows it as a purchase that will be charged again. */
async function renews({ session }: Pick<Subscribed, 'session'>): Promise<boolean> {
  const [row] = await harness.licensingSql<{ renews: boolean }[]>`
    select renews from purchases where purchase_ref = ${session.id}`
  return row!.renews
}

describe('a subscription', () => {
  test('that is cancelled for the end of its period does not renew, until that is undone', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, licenceId } = customer
    const eventuallyRenews = (expected: boolean) =>
      eventually(async () => expect(await renews(customer)).toBe(expected))
    expect(await renews(customer)).toBe(true)
    const before = await licenceOf(harness, vendor, licenceId)
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await eventuallyRenews(false)
    await act(harness, customer, 'cancel', { when: 'undo' })
    await eventuallyRenews(true)
    await handled(harness, vendor)
    expect(await licenceOf(harness, vendor, licenceId)).toEqual(before)
    await act(harness, customer, 'renew')
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await eventuallyRenews(false)
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    expect(await renews(customer)).toBe(false)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'expired' })
  })

  test('renews and ends as before if the account’s webhook endpoint does not get these events', async () => {
    const customer = await givenSubscribed(harness)
    const { vendor, licenceId } = customer
    await dropEvents(harness, vendor, 'customer.subscription.updated')
    await act(harness, customer, 'cancel', { when: 'period_end' })
    await act(harness, customer, 'renew')
    await handled(harness, vendor)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'expired' })
    expect(await renews(customer)).toBe(false)
    expect(alertsOf(harness, vendor)).toEqual([])
  })
})
