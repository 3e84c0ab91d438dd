import { timestampDate } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import {
  applicationFeesOf,
  checkoutRefOf,
  feesOf,
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  licencesOf,
  openCheckout,
  pay,
  paymentsOf,
  statusOf,
  sentTypes,
} from '../../test/shop.ts'

const harness = await sharedHarness()

describe('a checkout that is paid', () => {
  test('issues one licence, reports it, lists the payment with its charge and charges the fee', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    expect(session).toMatchObject({ status: 'open', amount: 4900n, currency: 'usd', feeMinor: 245n })
    await pay(harness, session)
    await handled(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
    const [payment] = await paymentsOf(harness, vendor)
    expect(payment).toMatchObject({
      sessionId: session.id,
      planId: vendor.planId,
      externalRef: 'cust-1001',
      amount: 4900n,
      currency: 'usd',
      feeMinor: 245n,
      chargeRef: expect.stringMatching(/^ch_sim/),
    })
    expect(await feesOf(harness, vendor)).toMatchObject([
      { kind: 'charge', amountMinor: 245n, currency: 'usd', chargeRef: payment!.chargeRef },
    ])
    const { licenceId } = payment!
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'payment.succeeded',
      licence_id: licenceId,
      amount: 4900,
      currency: 'usd',
    })
  })

  test('has its effect once, however often the processor repeats its events, also at the same time', async () => {
    const vendor = await harness.givenVendor()
    const account = vendor.connectedAccount
    await harness.simulator.control('delivery-rules', { action: 'duplicate', times: 6, account })
    await givenSold(harness, vendor)
    await handled(harness, vendor)
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('gives a licence for the price’s months from the payment, or a permanent one if the price has no months', async () => {
    const vendor = await harness.givenVendor({ price: { periodMonths: 1 } })
    const { licenceId } = await givenSold(harness, vendor, { created: Date.UTC(2027, 0, 31, 10) / 1000 })
    const { expiresOn } = await licenceOf(harness, vendor, licenceId)
    expect(timestampDate(expiresOn!)).toEqual(new Date(Date.UTC(2027, 1, 28, 10)))
    const permanent = await harness.givenVendor()
    const sold = await givenSold(harness, permanent)
    expect((await licenceOf(harness, permanent, sold.licenceId)).expiresOn).toBeUndefined()
  })

  test('that costs nothing after a discount issues a licence and costs no fee', async () => {
    const vendor = await harness.givenVendor({ fee: { feeFixedMinor: 30n } })
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { discount: 4900 })
    await handled(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
    expect(await feesOf(harness, vendor)).toEqual([])
    expect(await paymentsOf(harness, vendor)).toMatchObject([{ amount: 0n, feeMinor: 0n }])
    const reported = { type: 'payment.succeeded', amount: 0 }
    expect(harness.events.of(vendor.accountId)).toContainEqual(expect.objectContaining(reported))
  })

  test('on a plan whose price was changed meanwhile keeps the plan and the terms at its opening', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.billing.deletePrice(vendor)
    harness.catalog.accounts.get(vendor.accountId)!.feeBps = 9000
    await pay(harness, session)
    await handled(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
  })
})

test('a delayed payment that fails cancels the session, with no licence and no fee', async () => {
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  await pay(harness, session, { method: 'delayed' })
  await handled(harness, vendor)
  expect(await statusOf(harness, vendor, session.id)).toBe('open')
  expect(await paymentsOf(harness, vendor)).toEqual([])
  await harness.simulator.control('fail', { session: checkoutRefOf(session) })
  await handled(harness, vendor)
  expect(await statusOf(harness, vendor, session.id)).toBe('canceled')
  expect(await licencesOf(harness, vendor)).toEqual([])
  expect(await feesOf(harness, vendor)).toEqual([])
  const replay = harness.billing.replayCheckoutSession({ ...vendor, sessionId: session.id })
  await expect(replay).rejects.toMatchObject({ code: 'conflict', members: { current: 'canceled' } })
})

describe('a plan archived between opening and payment', () => {
  async function givenFailed() {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.changePlan(vendor.planId, 'retired')
    await pay(harness, session)
    await handled(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('provision_failed')
    return { vendor, session, replay: { ...vendor, sessionId: session.id } }
  }

  test('fails the provision and says why, once, and is provisioned by any number of replays after the restore, once', async () => {
    const { vendor, session, replay } = await givenFailed()
    const { accountId, planId } = vendor
    const price = { plan_id: planId, amount: 4900, currency: 'usd', reason: 'plan_archived' }
    const failed = { type: 'payment.provision_failed', session_id: session.id, ...price }
    expect(harness.events.of(accountId)).toEqual([failed])
    expect(await harness.billing.getCheckoutSession(replay)).toMatchObject({ failureReason: 'plan_archived' })
    const replayed = () => harness.billing.replayCheckoutSession(replay)
    await expect(replayed()).rejects.toMatchObject({ code: 'plan_archived' })
    await handled(harness, vendor)
    expect(harness.events.of(accountId)).toEqual([failed])
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await harness.changePlan(planId, 'active')
    const outcomes = await Promise.allSettled(Array.from({ length: 5 }, replayed))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toMatchObject([
      { value: { status: 'provisioned' } },
    ])
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
    }
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    await handled(harness, vendor)
    expect(sentTypes(harness, vendor)).toEqual([
      'licence.created',
      'payment.provision_failed',
      'payment.succeeded',
    ])
  })

  test('has nothing to replay once the payment was refunded in full', async () => {
    const { vendor, session, replay } = await givenFailed()
    await harness.simulator.control('refund', { charge: checkoutRefOf(session) })
    await handled(harness, vendor)
    await harness.changePlan(vendor.planId, 'active')
    await expect(harness.billing.replayCheckoutSession(replay)).rejects.toMatchObject({ code: 'conflict' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    expect(await licencesOf(harness, vendor)).toEqual([])
  })
})

describe('opening a checkout', () => {
  test('needs a known plan with a price, a connected processor, and an active plan, in this order', async () => {
    const vendor = await harness.givenVendor({ connect: false, price: null })
    const refused = { code: 'validation_failed', errors: [{ pointer: '/plan_id' }] }
    const noPlan = openCheckout(harness, vendor, { planId: 'pln_01k00000000000000000000000' })
    await expect(noPlan).rejects.toMatchObject(refused)
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject(refused)
    const { accountId, applicationId, planId, priceId } = vendor
    const price = { planId, priceId, amount: 100n, currency: 'eur', mode: 'payment' }
    await harness.billing.setPrice({ accountId, applicationId, price })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'conflict' })
    await harness.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    expect(await openCheckout(harness, vendor)).toMatchObject({ status: 'open', currency: 'eur' })
    await harness.changePlan(planId, 'retired')
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'plan_archived' })
  })

  const fault = { path: '/v1/checkout', method: 'POST' }

  test('succeeds even if the processor’s first answer is lost', async () => {
    const vendor = await harness.givenVendor()
    const account = vendor.connectedAccount
    await harness.simulator.control('faults', { ...fault, answer: 'reset', applied: true, next: 1, account })
    const { session } = await givenSold(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
  })

  test('is refused while the processor is unavailable, and leaves no session that could be paid', async () => {
    const vendor = await harness.givenVendor()
    const account = vendor.connectedAccount
    await harness.simulator.control('faults', { ...fault, answer: '503', next: 3, account })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'unavailable' })
    const rows =
      await harness.sql`select status from checkout_sessions where account_id = ${vendor.accountId}`
    expect(rows).toEqual([{ status: 'canceled' }])
  })

  test('sends the processor our ids, the fee, and a reference that is short enough, also of characters outside the basic plane', async () => {
    const vendor = await harness.givenVendor({ fee: { feeBps: 100, feeFixedMinor: 25n } })
    const externalRef = '😀'.repeat(255)
    const { session, charge, licenceId } = await givenSold(harness, vendor, { externalRef })
    expect(session.feeMinor).toBe(74n)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ externalRef, status: 'active' })
    expect(await applicationFeesOf(harness, charge)).toMatchObject([{ amount: 74 }])
  })
})
