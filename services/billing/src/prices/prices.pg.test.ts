import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import type { Vendor } from '../testing/vendor.ts'
import { checkoutRefOf, givenSold, handled, licenceOf, openCheckout, scope } from '../testing/shop.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

const set = (vendor: Vendor, price: object = {}) =>
  house.billing.setPrice({
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

describe('a price', () => {
  test('is set, shown, replaced and removed', async () => {
    const vendor = await house.givenVendor({ price: null })
    await expect(house.billing.getPrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
    expect(await set(vendor, { periodMonths: 12 })).toMatchObject({ periodMonths: 12 })
    await set(vendor, { amount: 9900n, currency: 'eur' })
    const shown = await house.billing.getPrice(vendor)
    expect(shown).toMatchObject({ amount: 9900n, currency: 'eur', mode: 'payment', priceId: vendor.priceId })
    expect(shown.periodMonths).toBeUndefined()
    await house.billing.deletePrice(vendor)
    await expect(house.billing.getPrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
    await expect(house.billing.deletePrice(vendor)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('has one plan, however many claim it at once', async () => {
    const vendors = await Promise.all(Array.from({ length: 5 }, () => house.givenVendor({ price: null })))
    const owner = vendors[0]!
    const plans = vendors.map(({ planId }) => planId)
    for (const planId of plans) house.catalog.plans.get(planId)!.accountId = owner.accountId
    for (const planId of plans) house.catalog.plans.get(planId)!.applicationId = owner.applicationId
    const outcomes = await Promise.allSettled(plans.map((planId) => set({ ...owner, planId })))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'already_exists' })
    }
  })

  test('belongs to its account: another may use the same id, and sees nothing of it', async () => {
    const one = await house.givenVendor()
    const other = await house.givenVendor({ price: null })
    await set({ ...other, priceId: one.priceId })
    const stranger = { ...scope(other), planId: one.planId }
    await expect(house.billing.getPrice(stranger)).rejects.toMatchObject({ code: 'not_found' })
    await expect(house.billing.deletePrice(stranger)).rejects.toMatchObject({ code: 'not_found' })
    await expect(set({ ...other, planId: one.planId })).rejects.toMatchObject({ code: 'not_found' })
  })

  test.each([
    ['a negative amount', { amount: -1n }, '/amount'],
    ['an amount that JSON cannot carry', { amount: 2n ** 60n }, '/amount'],
    ['a currency that is none', { currency: 'USD' }, '/currency'],
    ['another mode', { mode: 'rent' }, '/mode'],
    ['no months', { periodMonths: 0 }, '/period_months'],
  ])('is refused with %s', async (_, price, pointer) => {
    const vendor = await house.givenVendor({ price: null })
    await expect(set(vendor, price)).rejects.toMatchObject({ errors: [{ pointer }] })
  })
})

describe('a connected processor', () => {
  test('is shown as the stand-in that it is', async () => {
    const vendor = await house.givenVendor({ connect: false })
    await expect(house.billing.getProcessor(vendor)).rejects.toMatchObject({ code: 'not_found' })
    await house.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    const first = await house.billing.getProcessor(vendor)
    expect(first).toMatchObject({
      processor: 'stripe',
      connectedAccount: vendor.connectedAccount,
      simulated: true,
    })
    await house.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    expect((await house.billing.getProcessor(vendor)).connectedAt).toEqual(first.connectedAt)
  })

  test('that the vendor withdraws opens no checkout until it is connected again; people are told', async () => {
    const vendor = await house.givenVendor()
    await house.simulator.control('deauthorize', { account: vendor.connectedAccount })
    await handled(house)
    await expect(openCheckout(house, vendor)).rejects.toMatchObject({ code: 'conflict' })
    await house.simulator.control('authorize', { account: vendor.connectedAccount })
    await house.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    await openCheckout(house, vendor)
    await handled(house)
    const alerts = house.events.raw(vendor.accountId).filter(({ payload }) => payload.case === 'vendorAlert')
    expect(alerts).toHaveLength(1)
  })

  test('that was replaced still tells of refunds of what was sold through it', async () => {
    const vendor = await house.givenVendor()
    const { session, licenceId } = await givenSold(house, vendor)
    const connectedAccount = `${vendor.connectedAccount}2`
    await house.billing.connectProcessor({ ...vendor, processor: 'stripe', connectedAccount })
    expect(await house.billing.getProcessor(vendor)).toMatchObject({ connectedAccount })
    await house.simulator.control('refund', { charge: checkoutRefOf(session) })
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'revoked' })
  })

  test('may be shared by two accounts, and neither sees the other’s sales', async () => {
    const one = await house.givenVendor()
    const other = await house.givenVendor({ connect: false })
    await house.billing.connectProcessor({
      ...other,
      processor: 'stripe',
      connectedAccount: one.connectedAccount,
    })
    const mine = await givenSold(house, one)
    const theirs = await givenSold(house, other)
    await house.simulator.control('refund', { charge: mine.charge })
    await handled(house)
    expect(await licenceOf(house, one, mine.licenceId)).toMatchObject({ status: 'revoked' })
    expect(await licenceOf(house, other, theirs.licenceId)).toMatchObject({ status: 'active' })
    await expect(
      house.billing.getCheckoutSession({ ...scope(other), sessionId: mine.session.id }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })
})
