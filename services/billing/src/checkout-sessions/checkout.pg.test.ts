import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
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

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

describe('a checkout that is paid', () => {
  test('issues one licence, reports it, lists the payment with its charge and charges the fee', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    expect(session).toMatchObject({ status: 'open', amount: 4900n, currency: 'usd', feeMinor: 245n })
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
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
    await handled(harness)
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded']),
    )
    expect(harness.events.of(vendor.accountId)).toContainEqual({
      type: 'payment.succeeded',
      licence_id: licenceId,
      amount: 4900,
      currency: 'usd',
    })
  })

  test('has its effect once, however often the processor repeats its events, also at the same time', async () => {
    const vendor = await harness.givenVendor()
    await harness.simulator.control('delivery-rules', { action: 'duplicate', times: 6, next: 3 })
    await givenSold(harness, vendor)
    const events = await harness.simulator.control<{ data: { id: string; type: string }[] }>('deliver', {
      event: { type: 'price.created', data: { object: {} } },
    })
    expect(events).toBeDefined()
    await handled(harness)
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded']),
    )
  })

  test('gives a licence for the price’s months from the payment, or a permanent one if the price has no months', async () => {
    const vendor = await harness.givenVendor({ price: { periodMonths: 1 } })
    const created = Date.UTC(2027, 0, 31, 10, 0, 0) / 1000
    const { licenceId } = await givenSold(harness, vendor, { created })
    const { expiresOn } = await licenceOf(harness, vendor, licenceId)
    expect(Number(expiresOn!.seconds)).toBe(Date.UTC(2027, 1, 28, 10, 0, 0) / 1000)
    const forEver = await harness.givenVendor()
    const sold = await givenSold(harness, forEver)
    expect((await licenceOf(harness, forEver, sold.licenceId)).expiresOn).toBeUndefined()
  })

  test.each([200, 255])(
    'provisions for a reference of %d characters outside the basic plane',
    async (max) => {
      const vendor = await harness.givenVendor()
      const externalRef = '😀'.repeat(max)
      const { licenceId } = await givenSold(harness, vendor, { externalRef })
      expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ externalRef, status: 'active' })
    },
  )

  test('that costs nothing after a discount issues a licence and costs no fee', async () => {
    const vendor = await harness.givenVendor({ fee: { feeFixedMinor: 30n } })
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { discount: 4900 })
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    expect(await feesOf(harness, vendor)).toEqual([])
    expect(await paymentsOf(harness, vendor)).toMatchObject([{ amount: 0n, feeMinor: 0n }])
    await eventually(() =>
      expect(harness.events.of(vendor.accountId)).toContainEqual(
        expect.objectContaining({ type: 'payment.succeeded', amount: 0 }),
      ),
    )
  })

  test('for a customer who has a licence changes its plan and makes no second licence', async () => {
    const vendor = await harness.givenVendor()
    const first = await givenSold(harness, vendor)
    const second = await givenSold(harness, vendor)
    expect(second.licenceId).toBe(first.licenceId)
    await handled(harness)
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.plan_changed',
        'payment.succeeded',
        'payment.succeeded',
      ]),
    )
  })

  test('on a plan whose price was changed meanwhile keeps the plan and the terms at its opening', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.billing.deletePrice(vendor)
    harness.catalog.accounts.get(vendor.accountId)!.feeBps = 9000
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
  })
})

describe('a delayed payment', () => {
  test('provisions when the money arrives, and not before', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { method: 'delayed' })
    await handled(harness)
    expect(await statusOf(harness, vendor, session.id)).toBe('open')
    expect(await paymentsOf(harness, vendor)).toEqual([])
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    await handled(harness)
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded']),
    )
  })

  test('that fails cancels the session, with no licence and no fee', async () => {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { method: 'delayed' })
    await harness.simulator.control('fail', { session: checkoutRefOf(session) })
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('canceled'))
    expect(await licencesOf(harness, vendor)).toEqual([])
    expect(await feesOf(harness, vendor)).toEqual([])
    await expect(
      harness.billing.replayCheckoutSession({ ...vendor, sessionId: session.id }),
    ).rejects.toMatchObject({ code: 'conflict', members: { current: 'canceled' } })
  })
})

test('a session that nobody pays expires', async () => {
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  await harness.simulator.control('expire', { session: checkoutRefOf(session) })
  await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('expired'))
})

describe('a plan archived between opening and payment', () => {
  async function givenFailed() {
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.changePlan(vendor.planId, 'retired')
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provision_failed'))
    await handled(harness)
    return { vendor, session, replay: { ...vendor, sessionId: session.id } }
  }

  test('fails the provision and says why, once', async () => {
    const { vendor, session, replay } = await givenFailed()
    const failed = {
      type: 'payment.provision_failed',
      session_id: session.id,
      plan_id: vendor.planId,
      amount: 4900,
      currency: 'usd',
      reason: 'plan_archived',
    }
    await eventually(() => expect(harness.events.of(vendor.accountId)).toEqual([failed]))
    expect(await harness.billing.getCheckoutSession(replay)).toMatchObject({ failureReason: 'plan_archived' })
    await expect(harness.billing.replayCheckoutSession(replay)).rejects.toMatchObject({
      code: 'plan_archived',
    })
    await handled(harness)
    expect(harness.events.of(vendor.accountId)).toEqual([failed])
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245'])
  })

  test('is provisioned by a replay after the restore, once for any number of replays', async () => {
    const { vendor, replay } = await givenFailed()
    await harness.changePlan(vendor.planId, 'active')
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5 }, () => harness.billing.replayCheckoutSession(replay)),
    )
    const replayed = outcomes.filter((outcome) => outcome.status === 'fulfilled')
    expect(replayed.map((outcome) => outcome.value.status)).toEqual(['provisioned'])
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
    }
    expect(await licencesOf(harness, vendor)).toHaveLength(1)
    await handled(harness)
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'payment.provision_failed',
        'payment.succeeded',
      ]),
    )
  })

  test('has nothing to replay once the payment was refunded in full', async () => {
    const { vendor, session, replay } = await givenFailed()
    await harness.simulator.control('refund', { charge: checkoutRefOf(session) })
    await handled(harness)
    await harness.changePlan(vendor.planId, 'active')
    await expect(harness.billing.replayCheckoutSession(replay)).rejects.toMatchObject({ code: 'conflict' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    expect(await licencesOf(harness, vendor)).toEqual([])
  })
})

describe('opening a checkout', () => {
  test('needs a known plan with a price, a connected processor, and an active plan, in this order', async () => {
    const vendor = await harness.givenVendor({ connect: false, price: null })
    const noPlan = openCheckout(harness, vendor, { planId: 'pln_01k00000000000000000000000' })
    await expect(noPlan).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id' }],
    })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id' }],
    })
    const { accountId, applicationId, planId, priceId } = vendor
    const price = { planId, priceId, amount: 100n, currency: 'eur', mode: 'payment' }
    await harness.billing.setPrice({ accountId, applicationId, price })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'conflict' })
    await harness.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    await expect(openCheckout(harness, vendor)).resolves.toMatchObject({ status: 'open', currency: 'eur' })
    await harness.changePlan(planId, 'retired')
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'plan_archived' })
  })

  test('makes one session at the processor, even if the first answers are lost', async () => {
    const vendor = await harness.givenVendor()
    await harness.simulator.control('faults', {
      answer: 'reset',
      applied: true,
      next: 1,
      path: '/v1/checkout',
      method: 'POST',
    })
    const session = await openCheckout(harness, vendor)
    const { data } = await harness.simulator
      .control<{ data: unknown[] }>('requests')
      .catch(() => ({ data: [] }))
    expect(data).toBeDefined()
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
  })

  test('is refused while the processor is unavailable, and leaves no session that could be paid', async () => {
    const vendor = await harness.givenVendor()
    await harness.simulator.control('faults', {
      answer: '503',
      next: 3,
      path: '/v1/checkout',
      method: 'POST',
    })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'unavailable' })
    const rows = await harness.sql<
      { status: string }[]
    >`select status from checkout_sessions where account_id = ${vendor.accountId}`
    expect(rows).toEqual([{ status: 'canceled' }])
  })

  test('sends the processor our ids, the fee, and a reference that is short enough', async () => {
    const vendor = await harness.givenVendor({ fee: { feeBps: 100, feeFixedMinor: 25n } })
    const longRef = 'x'.repeat(255)
    const session = await openCheckout(harness, vendor, { externalRef: longRef })
    expect(session.feeMinor).toBe(74n)
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    expect(await licencesOf(harness, vendor)).toMatchObject([{ externalRef: longRef }])
    const [payment] = await paymentsOf(harness, vendor)
    const fees = await fetch(`${harness.simulator.url}/v1/application_fees?charge=${payment!.chargeRef}`, {
      headers: { authorization: 'Bearer sk_test_simulated' },
    })
    expect(await fees.json()).toMatchObject({ data: [{ amount: 74 }] })
  })
})
