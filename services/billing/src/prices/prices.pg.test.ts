import { describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import type { Vendor } from '../../test/vendor.ts'
import { handled, openCheckout, scope } from '../../test/shop.ts'
import { alertsOf } from '../../test/subscribed.ts'

const harness = await sharedHarness()

const set = (vendor: Vendor, change: object = {}) => {
  const { planId, priceId } = vendor
  const price = { planId, priceId, amount: 4900n, currency: 'usd', mode: 'payment' }
  return harness.billing.setPrice({ ...scope(vendor), price: { ...price, ...change } })
}

describe('a price', () => {
  test('is set, shown, replaced and removed', async () => {
    const vendor = await harness.givenVendor({ price: null })
    await expect(harness.billing.getPrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
    const months = { periodMonths: 12, updatesMonths: 24 }
    expect(await set(vendor, months)).toMatchObject(months)
    expect(await harness.billing.getPrice(vendor)).toMatchObject(months)
    await set(vendor, { amount: 9900n, currency: 'eur' })
    const shown = await harness.billing.getPrice(vendor)
    expect(shown).toMatchObject({ amount: 9900n, currency: 'eur', mode: 'payment', priceId: vendor.priceId })
    expect(shown.periodMonths).toBeUndefined()
    expect(shown.updatesMonths).toBeUndefined()
    await harness.billing.deletePrice(vendor)
    await expect(harness.billing.getPrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
    await expect(harness.billing.deletePrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('has one plan, however many claim it at once', async () => {
    const vendors = await Promise.all(Array.from({ length: 5 }, () => harness.givenVendor({ price: null })))
    const owner = vendors[0]!
    const plans = vendors.map(({ planId }) => planId)
    for (const planId of plans) Object.assign(harness.catalog.plans.get(planId)!, scope(owner))
    const outcomes = await Promise.allSettled(plans.map((planId) => set({ ...owner, planId })))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'already_exists' })
    }
  })

  test('belongs to its account: another account may use the same id, and does not see this price', async () => {
    const one = await harness.givenVendor()
    const other = await harness.givenVendor({ price: null })
    await set({ ...other, priceId: one.priceId })
    const ofAnother = { ...scope(other), planId: one.planId }
    await expect(harness.billing.getPrice(ofAnother)).rejects.toMatchObject({ code: 'not_found' })
    await expect(harness.billing.deletePrice(ofAnother)).rejects.toMatchObject({ code: 'not_found' })
    await expect(set({ ...other, planId: one.planId })).rejects.toMatchObject({ code: 'not_found' })
  })

  test.each([
    ['a negative amount', { amount: -1n }, '/amount'],
    ['an amount that JSON cannot carry', { amount: 2n ** 60n }, '/amount'],
    ['a currency in upper case', { currency: 'USD' }, '/currency'],
    ['a currency that does not exist', { currency: 'xyz' }, '/currency'],
    ['another mode', { mode: 'rent' }, '/mode'],
    ['no months', { periodMonths: 0 }, '/period_months'],
    ['no months of updates', { updatesMonths: 0 }, '/updates_months'],
    ['too many months of updates', { updatesMonths: 121 }, '/updates_months'],
  ])('is refused with %s', async (_, price, pointer) => {
    const vendor = await harness.givenVendor({ price: null })
    await expect(set(vendor, price)).rejects.toMatchObject({ errors: [{ pointer }] })
  })

  test('that was set in a currency that does not exist is still shown, and can be removed', async () => {
    const vendor = await harness.givenVendor()
    await harness.sql`update prices set currency = 'xyz' where plan_id = ${vendor.planId}`
    expect(await harness.billing.getPrice(vendor)).toMatchObject({ currency: 'xyz' })
    await harness.billing.deletePrice(vendor)
  })
})

describe('a connected processor', () => {
  const connect = (vendor: Vendor) => harness.billing.connectProcessor({ ...vendor, processor: 'stripe' })

  test('is shown with its account and its mode', async () => {
    const vendor = await harness.givenVendor({ connect: false })
    await expect(harness.billing.getProcessor(vendor)).rejects.toMatchObject({ code: 'not_found' })
    await connect(vendor)
    const first = await harness.billing.getProcessor(vendor)
    const { connectedAccount } = vendor
    expect(first).toMatchObject({ processor: 'stripe', connectedAccount, livemode: false })
    await connect(vendor)
    expect((await harness.billing.getProcessor(vendor)).connectedAt).toEqual(first.connectedAt)
  })

  test('whose access the vendor withdraws opens no checkout until it is connected again, and an alert is sent', async () => {
    const vendor = await harness.givenVendor()
    await harness.simulator.control('deauthorize', { account: vendor.connectedAccount })
    await handled(harness, vendor)
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'conflict' })
    await harness.simulator.control('authorize', { account: vendor.connectedAccount })
    await connect(vendor)
    await openCheckout(harness, vendor)
    expect(alertsOf(harness, vendor)).toHaveLength(1)
  })
})
