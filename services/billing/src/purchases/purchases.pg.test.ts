import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver, eventsAt } from '../testing/charge-story.ts'
import { startHarness, subscriptionGraceMs } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import {
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  licencesOf,
  paymentsOf,
  refundsOf,
  sentTypes,
} from '../testing/shop.ts'
import type { Sold } from '../testing/shop.ts'
import { anotherPlan } from '../testing/vendor.ts'
import type { Mode, Vendor } from '../testing/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const day = 24 * 3_600
const monthly = { price: { amount: 2980n, currency: 'jpy', mode: 'subscription' } }

/** Another plan of the vendor's, at a price of its own. */
const givenPlan = (vendor: Vendor, amount: bigint, mode: Mode = 'payment') =>
  anotherPlan(harness, vendor, { amount, mode, currency: mode === 'payment' ? 'usd' : 'jpy' })

async function givenSubscribed(
  vendor: Vendor,
  externalRef?: string,
): Promise<Sold & { subscription: string }> {
  const sold = await givenSold(harness, vendor, externalRef === undefined ? {} : { externalRef })
  const [row] = await harness.sql<{ subscription_ref: string }[]>`
    select subscription_ref from checkout_sessions where id = ${sold.session.id}`
  return { ...sold, subscription: row!.subscription_ref }
}

const act = (name: string, subscription: string, how: object = {}) =>
  harness.simulator.control(name, { subscription, ...how })

const alerts = (vendor: Vendor) =>
  harness.events
    .raw(vendor.accountId)
    .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value.kind] : []))

describe('of two purchases of one customer', () => {
  test('after a refund of the later the licence rests on the earlier; after refunds of both it is revoked', async () => {
    const vendor = await harness.givenVendor()
    const better = await givenPlan(vendor, 9900n)
    const first = await givenSold(harness, vendor)
    const upgrade = await givenSold(harness, better)
    expect(upgrade.licenceId).toBe(first.licenceId)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({ planId: better.planId })
    await harness.simulator.control('refund', { charge: upgrade.charge })
    await handled(harness)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({
      status: 'active',
      planId: vendor.planId,
    })
    await harness.simulator.control('refund', { charge: first.charge })
    await handled(harness)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({ status: 'revoked' })
    await eventually(() =>
      expect(sentTypes(harness, vendor).filter((type) => type === 'licence.revoked')).toHaveLength(1),
    )
  })

  test.each([
    ['a refund', 'refund', {}],
    ['a partial refund', 'refund', { amount: 100 }],
    ['a chargeback', 'dispute', { kind: 'chargeback' }],
  ])('%s of the earlier is reported, and changes no licence', async (_, action, how) => {
    const vendor = await harness.givenVendor()
    const first = await givenSold(harness, vendor)
    await givenSold(harness, vendor)
    await harness.simulator.control(action, { charge: first.charge, ...how })
    await handled(harness)
    expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'active' }])
    expect(await refundsOf(harness, vendor)).toHaveLength(1)
    await eventually(() => expect(sentTypes(harness, vendor)).toContain('refund.processed'))
  })

  test('failures and the end of the earlier’s subscription change no licence', async () => {
    const vendor = await harness.givenVendor(monthly)
    const former = await givenSubscribed(vendor)
    const later = await givenSubscribed(vendor)
    for (let attempt = 0; attempt < 3; attempt += 1) await act('fail-invoice', former.subscription)
    await handled(harness)
    expect(await licenceOf(harness, vendor, later.licenceId)).toMatchObject({ status: 'active' })
    await act('cancel', former.subscription, { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, later.licenceId)).toMatchObject({ status: 'active' })
  })
})

describe('a subscription', () => {
  test('that is paid three days after its period’s end is never interrupted', async () => {
    const vendor = await harness.givenVendor(monthly)
    const { subscription, licenceId } = await givenSubscribed(vendor)
    const before = Number((await licenceOf(harness, vendor, licenceId)).expiresOn!.seconds)
    await act('renew', subscription, { paid_after_seconds: 3 * day })
    await handled(harness)
    const renewal = (await paymentsOf(harness, vendor)).at(0)!
    const paidAt = Number(renewal.occurredAt!.seconds)
    // The licence stood until then, though its period was over.
    expect(paidAt).toBeGreaterThan(before - subscriptionGraceMs / 1000)
    expect(paidAt).toBeLessThan(before)
    const after = Number((await licenceOf(harness, vendor, licenceId)).expiresOn!.seconds)
    expect(after - before).toBeGreaterThan(27 * day)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose price changes moves the licence to the new price’s plan; a refund of the proration changes no licence', async () => {
    const vendor = await harness.givenVendor(monthly)
    const better = await givenPlan(vendor, 9800n, 'subscription')
    // The processor learns the better price from a checkout.
    await givenSubscribed(better, 'somebody-else')
    const { subscription, licenceId } = await givenSubscribed(vendor)
    await act('change-price', subscription, { price: better.priceId, proration: 'always_invoice' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({
      status: 'active',
      planId: better.planId,
    })
    await eventually(() => expect(sentTypes(harness, vendor)).toContain('licence.plan_changed'))
    const own = (await paymentsOf(harness, vendor)).filter((payment) => payment.licenceId === licenceId)
    expect(own).toHaveLength(2)
    const proration = own.find((payment) => payment.amount !== 2980n)!
    await harness.simulator.control('refund', { charge: proration.chargeRef })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({
      status: 'active',
      planId: better.planId,
    })
    expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'full_refund' }])
  })

  test('that is paid although its licence was revoked raises an alert', async () => {
    const vendor = await harness.givenVendor(monthly)
    const { subscription, licenceId } = await givenSubscribed(vendor)
    const { accountId } = vendor
    await harness.licensing.revokeLicence({ accountId, licenceId, actor: 'key_test' })
    await act('renew', subscription)
    await handled(harness)
    await eventually(() => expect(alerts(vendor)).toEqual(['renewal_without_licence']))
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
  })

  test('that is paid after a chargeback raises an alert, also if the renewal is reported first', async () => {
    const vendor = await harness.givenVendor(monthly)
    const { subscription, licenceId, charge } = await givenSubscribed(vendor)
    const types = ['charge.dispute.created', 'charge.dispute.funds_withdrawn']
    const account = vendor.connectedAccount
    await harness.simulator.control('delivery-rules', { action: 'drop', types, account })
    await harness.simulator.control('dispute', { charge })
    await act('renew', subscription)
    await act('renew', subscription)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    const [disputed] = (await eventsAt(harness, vendor)).filter((event) => types.includes(event.type))
    await deliver(harness, vendor, disputed!)
    await eventually(async () =>
      expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' }),
    )
    const lost = 'renewal_without_licence'
    await eventually(() => expect(alerts(vendor)).toEqual([lost, lost]))
    // Given back twice, it is lost once.
    await harness.simulator.control('refund', { charge, force: true, created: Math.ceil(Date.now() / 1000) })
    await handled(harness)
    await harness.events.caughtUp()
    expect(alerts(vendor)).toEqual([lost, lost])
  })
})
