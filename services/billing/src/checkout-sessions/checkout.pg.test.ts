import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
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
  told,
} from '../testing/shop.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

describe('a checkout that is paid', () => {
  test('issues one licence, tells of it, lists the payment with its charge and charges the fee', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    expect(session).toMatchObject({ status: 'open', amount: 4900n, currency: 'usd', feeMinor: 245n })
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    const [payment] = await paymentsOf(house, vendor)
    expect(payment).toMatchObject({
      sessionId: session.id,
      planId: vendor.planId,
      externalRef: 'cust-1001',
      amount: 4900n,
      currency: 'usd',
      feeMinor: 245n,
      chargeRef: expect.stringMatching(/^ch_sim/),
    })
    expect(await feesOf(house, vendor)).toMatchObject([
      { kind: 'charge', amountMinor: 245n, currency: 'usd', chargeRef: payment!.chargeRef },
    ])
    const { licenceId } = payment!
    await handled(house)
    await eventually(() => expect(told(house, vendor)).toEqual(['licence.created', 'payment.succeeded']))
    expect(house.events.of(vendor.accountId)).toContainEqual({
      type: 'payment.succeeded',
      licence_id: licenceId,
      amount: 4900,
      currency: 'usd',
    })
  })

  test('has effect once however often and however crowded the processor repeats itself', async () => {
    const vendor = await house.givenVendor()
    await house.simulator.control('delivery-rules', { action: 'duplicate', times: 6, next: 3 })
    await givenSold(house, vendor)
    const events = await house.simulator.control<{ data: { id: string; type: string }[] }>('deliver', {
      event: { type: 'price.created', data: { object: {} } },
    })
    expect(events).toBeDefined()
    await handled(house)
    expect(await licencesOf(house, vendor)).toHaveLength(1)
    expect(await ledgerOf(house, vendor)).toEqual(['charge 245'])
    await eventually(() => expect(told(house, vendor)).toEqual(['licence.created', 'payment.succeeded']))
  })

  test('lasts for the price’s months from the payment, and for ever without', async () => {
    const vendor = await house.givenVendor({ price: { periodMonths: 1 } })
    const created = Date.UTC(2027, 0, 31, 10, 0, 0) / 1000
    const { licenceId } = await givenSold(house, vendor, { created })
    const { expiresOn } = await licenceOf(house, vendor, licenceId)
    expect(Number(expiresOn!.seconds)).toBe(Date.UTC(2027, 1, 28, 10, 0, 0) / 1000)
    const forEver = await house.givenVendor()
    const sold = await givenSold(house, forEver)
    expect((await licenceOf(house, forEver, sold.licenceId)).expiresOn).toBeUndefined()
  })

  test.each([200, 255])(
    'provisions for a reference of %d characters outside the basic plane',
    async (most) => {
      const vendor = await house.givenVendor()
      const externalRef = '😀'.repeat(most)
      const { licenceId } = await givenSold(house, vendor, { externalRef })
      expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ externalRef, status: 'active' })
    },
  )

  test('that costs nothing after a discount issues a licence and costs no fee', async () => {
    const vendor = await house.givenVendor({ fee: { feeFixedMinor: 30n } })
    const session = await openCheckout(house, vendor)
    await pay(house, session, { discount: 4900 })
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    expect(await feesOf(house, vendor)).toEqual([])
    expect(await paymentsOf(house, vendor)).toMatchObject([{ amount: 0n, feeMinor: 0n }])
    await eventually(() =>
      expect(house.events.of(vendor.accountId)).toContainEqual(
        expect.objectContaining({ type: 'payment.succeeded', amount: 0 }),
      ),
    )
  })

  test('for a customer who holds a licence changes its plan and makes no second one', async () => {
    const vendor = await house.givenVendor()
    const first = await givenSold(house, vendor)
    const second = await givenSold(house, vendor)
    expect(second.licenceId).toBe(first.licenceId)
    await handled(house)
    await eventually(() =>
      expect(told(house, vendor)).toEqual([
        'licence.created',
        'licence.plan_changed',
        'payment.succeeded',
        'payment.succeeded',
      ]),
    )
  })

  test('on a plan whose price was changed meanwhile keeps the plan and the terms of its opening', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    await house.billing.deletePrice(vendor)
    house.catalog.accounts.get(vendor.accountId)!.feeBps = 9000
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    expect(await ledgerOf(house, vendor)).toEqual(['charge 245'])
  })
})

describe('a delayed payment', () => {
  test('provisions when the money arrives, and not before', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    await pay(house, session, { method: 'delayed' })
    await handled(house)
    expect(await statusOf(house, vendor, session.id)).toBe('open')
    expect(await paymentsOf(house, vendor)).toEqual([])
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    await handled(house)
    await eventually(() => expect(told(house, vendor)).toEqual(['licence.created', 'payment.succeeded']))
  })

  test('that fails cancels the session, with no licence and no fee', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    await pay(house, session, { method: 'delayed' })
    await house.simulator.control('fail', { session: checkoutRefOf(session) })
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('canceled'))
    expect(await licencesOf(house, vendor)).toEqual([])
    expect(await feesOf(house, vendor)).toEqual([])
    await expect(
      house.billing.replayCheckoutSession({ ...vendor, sessionId: session.id }),
    ).rejects.toMatchObject({ code: 'conflict', members: { current: 'canceled' } })
  })
})

test('a session that nobody pays expires', async () => {
  const vendor = await house.givenVendor()
  const session = await openCheckout(house, vendor)
  await house.simulator.control('expire', { session: checkoutRefOf(session) })
  await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('expired'))
})

describe('a plan archived between opening and payment', () => {
  async function givenFailed() {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    await house.changePlan(vendor.planId, 'retired')
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provision_failed'))
    await handled(house)
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
    await eventually(() => expect(house.events.of(vendor.accountId)).toEqual([failed]))
    expect(await house.billing.getCheckoutSession(replay)).toMatchObject({ failureReason: 'plan_archived' })
    await expect(house.billing.replayCheckoutSession(replay)).rejects.toMatchObject({ code: 'plan_archived' })
    await handled(house)
    expect(house.events.of(vendor.accountId)).toEqual([failed])
    expect(await ledgerOf(house, vendor)).toEqual(['charge 245'])
  })

  test('is provisioned by a replay after the restore, once however many replay', async () => {
    const { vendor, replay } = await givenFailed()
    await house.changePlan(vendor.planId, 'active')
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5 }, () => house.billing.replayCheckoutSession(replay)),
    )
    const replayed = outcomes.filter((outcome) => outcome.status === 'fulfilled')
    expect(replayed.map((outcome) => outcome.value.status)).toEqual(['provisioned'])
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
    }
    expect(await licencesOf(house, vendor)).toHaveLength(1)
    await handled(house)
    await eventually(() =>
      expect(told(house, vendor)).toEqual([
        'licence.created',
        'payment.provision_failed',
        'payment.succeeded',
      ]),
    )
  })

  test('has nothing to replay once the payment was given back', async () => {
    const { vendor, session, replay } = await givenFailed()
    await house.simulator.control('refund', { charge: checkoutRefOf(session) })
    await handled(house)
    await house.changePlan(vendor.planId, 'active')
    await expect(house.billing.replayCheckoutSession(replay)).rejects.toMatchObject({ code: 'conflict' })
    expect(await ledgerOf(house, vendor)).toEqual(['charge 245', 'credit -245'])
    expect(await licencesOf(house, vendor)).toEqual([])
  })
})

describe('opening a checkout', () => {
  test('needs a known plan with a price, a connected processor, and an active plan, in this order', async () => {
    const vendor = await house.givenVendor({ connect: false, price: null })
    const noPlan = openCheckout(house, vendor, { planId: 'pln_01k00000000000000000000000' })
    await expect(noPlan).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id' }],
    })
    await expect(openCheckout(house, vendor)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id' }],
    })
    const { accountId, applicationId, planId, priceId } = vendor
    const price = { planId, priceId, amount: 100n, currency: 'eur', mode: 'payment' }
    await house.billing.setPrice({ accountId, applicationId, price })
    await expect(openCheckout(house, vendor)).rejects.toMatchObject({ code: 'conflict' })
    await house.billing.connectProcessor({ ...vendor, processor: 'stripe' })
    await expect(openCheckout(house, vendor)).resolves.toMatchObject({ status: 'open', currency: 'eur' })
    await house.changePlan(planId, 'retired')
    await expect(openCheckout(house, vendor)).rejects.toMatchObject({ code: 'plan_archived' })
  })

  test('makes one session at the processor, though its first answers are lost', async () => {
    const vendor = await house.givenVendor()
    await house.simulator.control('faults', {
      answer: 'reset',
      applied: true,
      next: 1,
      path: '/v1/checkout',
      method: 'POST',
    })
    const session = await openCheckout(house, vendor)
    const { data } = await house.simulator
      .control<{ data: unknown[] }>('requests')
      .catch(() => ({ data: [] }))
    expect(data).toBeDefined()
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
  })

  test('is unavailable while the processor is, and leaves nothing behind that could be paid', async () => {
    const vendor = await house.givenVendor()
    await house.simulator.control('faults', { answer: '503', next: 3, path: '/v1/checkout', method: 'POST' })
    await expect(openCheckout(house, vendor)).rejects.toMatchObject({ code: 'unavailable' })
    const rows = await house.sql<
      { status: string }[]
    >`select status from checkout_sessions where account_id = ${vendor.accountId}`
    expect(rows).toEqual([{ status: 'canceled' }])
  })

  test('gives the processor our ids, the fee, and a reference it can hold', async () => {
    const vendor = await house.givenVendor({ fee: { feeBps: 100, feeFixedMinor: 25n } })
    const longRef = 'x'.repeat(255)
    const session = await openCheckout(house, vendor, { externalRef: longRef })
    expect(session.feeMinor).toBe(74n)
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    expect(await licencesOf(house, vendor)).toMatchObject([{ externalRef: longRef }])
    const [payment] = await paymentsOf(house, vendor)
    const fees = await fetch(`${house.simulator.url}/v1/application_fees?charge=${payment!.chargeRef}`, {
      headers: { authorization: 'Bearer sk_test_simulated' },
    })
    expect(await fees.json()).toMatchObject({ data: [{ amount: 74 }] })
  })
})
