import { eventually } from '@licensing/test-support/poll'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../../test/harness.ts'
import type { Harness } from '../../../test/harness.ts'
import {
  checkoutRefOf,
  feesOf,
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  licencesOf,
  openCheckout,
  openCheckouts,
  pay,
  paymentsOf,
  refundsOf,
  statusOf,
} from '../../../test/shop.ts'
import type { Vendor } from '../../../test/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
afterEach(async () => {
  await fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
  await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
})

/** Only the checkout's own event arrives. Billing has to ask for all other data. */
const checkoutEventsOnly = () =>
  harness.simulator.control('delivery-rules', {
    action: 'drop',
    types: ['charge.succeeded', 'charge.updated', 'payment_intent.succeeded'],
  })

const feesAt = async (charge: string) => {
  const answer = await fetch(`${harness.simulator.url}/v1/application_fees?charge=${charge}`, {
    headers: { authorization: 'Bearer sk_test_simulated' },
  })
  return ((await answer.json()) as { data: { amount: number; amount_refunded: number }[] }).data
}

describe('a charge', () => {
  test('that the processor refuses to show at first does not count as absent, and is known as soon as the processor shows it', async () => {
    await checkoutEventsOnly()
    const vendor = await harness.givenVendor()
    const session = await openCheckout(harness, vendor)
    await harness.simulator.control('faults', {
      answer: '403',
      until_cleared: true,
      path: '/v1/',
      method: 'GET',
      account: vendor.connectedAccount,
    })
    await pay(harness, session)
    // The customer gets the licence and the fee is charged, even if the processor does not show the charge.
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(['charge 245']))
    expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toBeUndefined()
    await fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
    await harness.sql`
      update processor_questions set next_at = now() where account_id = ${vendor.accountId} and next_at is not null`
    await eventually(async () =>
      expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toEqual(expect.stringMatching(/^ch_/)),
    )
  })

  test('that is captured asynchronously has its fee refunded as soon as the processor has added the fee', async () => {
    const vendor = await harness.givenVendor()
    const account = vendor.connectedAccount
    await harness.simulator.control('settings', { account, capture: 'asynchronous' })
    const { charge } = await givenSold(harness, vendor)
    expect(await feesAt(charge)).toEqual([])
    await harness.simulator.control('refund', { charge })
    await eventually(async () =>
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245']),
    )
    await eventually(async () => {
      const [row] = await harness.sql<{ attempts: number; done: boolean }[]>`
        select f.attempts, f.done_at is not null as done from fee_refunds f join payments p on p.id = f.payment_id
        where p.account_id = ${vendor.accountId}`
      expect(row).toMatchObject({ attempts: expect.any(Number), done: false })
      expect(row!.attempts).toBeGreaterThan(0)
    })
    await harness.simulator.control('capture', { charge })
    await harness.sql`update fee_refunds set next_at = now() where done_at is null`
    await eventually(async () => expect(await feesAt(charge)).toMatchObject([{ amount_refunded: 245 }]))
  })

  test('with more than ten refunds has all of them, although none of their events arrived', async () => {
    const vendor = await harness.givenVendor()
    const { charge, licenceId } = await givenSold(harness, vendor)
    const types = ['refund.created', 'refund.updated', 'charge.refund.updated', 'charge.refunded']
    await harness.simulator.control('delivery-rules', { action: 'drop', types, next: 44 })
    for (let part = 0; part < 11; part += 1)
      await harness.simulator.control('refund', { charge, amount: 400 })
    await harness.simulator.settled()
    await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
    await harness.simulator.control('refund', { charge })
    await handled(harness)
    const refunds = await refundsOf(harness, vendor)
    expect(refunds).toHaveLength(12)
    expect(refunds.filter((refund) => refund.lane === 'full_refund')).toHaveLength(1)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
  })
})

describe('a price', () => {
  const setPrice = (vendor: Vendor, price: object) =>
    harness.simulator.control('set-price', { id: vendor.priceId, account: vendor.connectedAccount, ...price })

  test('that differs at the processor determines amount, currency and fee', async () => {
    const vendor = await harness.givenVendor()
    await setPrice(vendor, { unit_amount: 9900, currency: 'eur' })
    const session = await openCheckout(harness, vendor)
    expect(session).toMatchObject({ amount: 9900n, currency: 'eur', feeMinor: 495n })
    await pay(harness, session)
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    await handled(harness)
    expect(await paymentsOf(harness, vendor)).toMatchObject([
      { amount: 9900n, currency: 'eur', feeMinor: 495n },
    ])
    expect(await feesOf(harness, vendor)).toMatchObject([{ amountMinor: 495n, currency: 'eur' }])
    const [payment] = await paymentsOf(harness, vendor)
    expect(await feesAt(payment!.chargeRef!)).toMatchObject([{ amount: 495 }])
    expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
  })

  test('below the processor’s minimum, or inactive there, is refused with an error about the price', async () => {
    const vendor = await harness.givenVendor({ price: { amount: 10n } })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id', message: expect.stringContaining('least amount') }],
    })
    const other = await harness.givenVendor()
    await setPrice(other, { unit_amount: 4900, currency: 'usd', active: false })
    await expect(openCheckout(harness, other)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id', message: expect.stringContaining('inactive') }],
    })
  })
})

test('a merchant whose questions hang does not delay sales of other merchants', async () => {
  await checkoutEventsOnly()
  const slow = await harness.givenVendor()
  const sessions = await openCheckouts(harness, slow, 60)
  await harness.simulator.control('faults', {
    answer: 'hang',
    until_cleared: true,
    path: '/v1/payment_intents',
    method: 'GET',
    account: slow.connectedAccount,
  })
  await Promise.all(sessions.map((session) => pay(harness, session)))
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  const startedMs = performance.now()
  await pay(harness, session)
  await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(['charge 245']), {
    intervalMs: 20,
  })
  expect(performance.now() - startedMs).toBeLessThan(8_000)
  expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toEqual(expect.stringMatching(/^ch_/))
})

test('refunds take effect among many new sales', async () => {
  const vendor = await harness.givenVendor()
  const { charge, licenceId } = await givenSold(harness, vendor, { externalRef: 'refunded' })
  const sessions = await openCheckouts(harness, vendor, 30)
  const paying = Promise.all(sessions.map((session) => pay(harness, session)))
  await harness.simulator.control('refund', { charge })
  await eventually(async () =>
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' }),
  )
  await paying
  await handled(harness)
  expect(await licencesOf(harness, vendor)).toHaveLength(31)
  expect(checkoutRefOf(sessions[0]!)).toMatch(/^cs_/)
})
