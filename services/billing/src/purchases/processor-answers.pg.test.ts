import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { afterEach, describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import {
  applicationFeesOf,
  dropEvents,
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
} from '../../test/shop.ts'
import { expectPaidPeriod, givenSubscribed, monthly } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()
const clearFaults = () => fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
afterEach(clearFaults)

/** Only the checkout's own event arrives. Billing has to ask for all other data. */
const checkoutEventsOnly = (vendor: Vendor) =>
  dropEvents(harness, vendor, 'charge.succeeded', 'charge.updated', 'payment_intent.succeeded')

describe('a charge', () => {
  test('that the processor refuses to show at first does not count as absent, and is known as soon as the processor shows it', async () => {
    const vendor = await harness.givenVendor()
    await checkoutEventsOnly(vendor)
    const session = await openCheckout(harness, vendor)
    const account = vendor.connectedAccount
    const fault = { answer: '403', until_cleared: true, path: '/v1/', method: 'GET', account }
    await harness.simulator.control('faults', fault)
    await pay(harness, session)
    // The customer gets the licence and the fee is charged, even if the processor does not show the charge.
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
    await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(['charge 245']))
    expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toBeUndefined()
    await clearFaults()
    await harness.sql`
      update processor_questions set next_at = now() where account_id = ${vendor.accountId} and next_at is not null`
    await eventually(async () =>
      expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toEqual(expect.stringMatching(/^ch_/)),
    )
  })

  fullTest(
    'that is captured asynchronously has its fee refunded as soon as the processor has added the fee',
    async () => {
      const vendor = await harness.givenVendor()
      const account = vendor.connectedAccount
      await harness.simulator.control('settings', { account, capture: 'asynchronous' })
      const { charge } = await givenSold(harness, vendor)
      expect(await applicationFeesOf(harness, charge)).toEqual([])
      await harness.simulator.control('refund', { charge })
      await eventually(async () => {
        const rows = await harness.sql`
        select from fee_refunds f join payments p on p.id = f.payment_id
        where p.account_id = ${vendor.accountId} and f.attempts > 0 and f.done_at is null`
        expect(rows).toHaveLength(1)
      })
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
      await harness.simulator.control('capture', { charge })
      await harness.sql`update fee_refunds set next_at = now() where done_at is null`
      await eventually(async () =>
        expect(await applicationFeesOf(harness, charge)).toMatchObject([{ amount_refunded: 245 }]),
      )
    },
  )

  test('with more than ten refunds has all of them, although none of their events arrived', async () => {
    const vendor = await harness.givenVendor()
    const { charge, licenceId } = await givenSold(harness, vendor)
    const account = vendor.connectedAccount
    const types = ['refund.created', 'refund.updated', 'charge.refund.updated', 'charge.refunded']
    await harness.simulator.control('delivery-rules', { action: 'drop', types, next: 44, account })
    for (let part = 0; part < 11; part += 1)
      await harness.simulator.control('refund', { charge, amount: 400 })
    await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
    await harness.simulator.control('refund', { charge })
    await handled(harness, vendor)
    const refunds = await refundsOf(harness, vendor)
    expect(refunds).toHaveLength(12)
    expect(refunds.filter((refund) => refund.lane === 'full_refund')).toHaveLength(1)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
  })
})

test.each([
  ['first invoice', undefined],
  ['subscription, if it does not return the invoice', '/v1/invoices'],
])(
  'a subscription whose first invoice no event reports is valid for the period of the processor’s %s',
  async (_, path) => {
    const vendor = await harness.givenVendor(monthly)
    await dropEvents(harness, vendor, 'invoice.paid', 'invoice.payment_succeeded')
    const account = vendor.connectedAccount
    if (path) {
      await harness.simulator.control('faults', { answer: '500', until_cleared: true, path, account })
    }
    await expectPaidPeriod(harness, await givenSubscribed(harness, vendor))
  },
)

describe('a price', () => {
  const setPrice = ({ priceId: id, connectedAccount: account }: Vendor, price: object) =>
    harness.simulator.control('set-price', { id, account, ...price })

  test('that differs at the processor determines amount, currency and fee', async () => {
    const vendor = await harness.givenVendor()
    await setPrice(vendor, { unit_amount: 9900, currency: 'eur' })
    const { session, charge } = await givenSold(harness, vendor)
    const charged = { amount: 9900n, currency: 'eur', feeMinor: 495n }
    expect(session).toMatchObject(charged)
    await handled(harness, vendor)
    expect(await paymentsOf(harness, vendor)).toMatchObject([charged])
    expect(await feesOf(harness, vendor)).toMatchObject([{ amountMinor: 495n, currency: 'eur' }])
    expect(await applicationFeesOf(harness, charge)).toMatchObject([{ amount: 495 }])
  })

  test('below the processor’s minimum, or inactive there, is refused with an error about the price', async () => {
    const refused = (message: string) => ({
      code: 'validation_failed',
      errors: [{ pointer: '/plan_id', message: expect.stringContaining(message) as string }],
    })
    const vendor = await harness.givenVendor({ price: { amount: 10n } })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject(refused('least amount'))
    await setPrice(vendor, { unit_amount: 4900, currency: 'usd', active: false })
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject(refused('inactive'))
  })
})

test('a merchant whose questions hang does not delay sales of other merchants', async () => {
  const slow = await harness.givenVendor()
  await checkoutEventsOnly(slow)
  const sessions = await openCheckouts(harness, slow, 60)
  const account = slow.connectedAccount
  const fault = { answer: 'hang', until_cleared: true, path: '/v1/payment_intents', method: 'GET', account }
  await harness.simulator.control('faults', fault)
  await Promise.all(sessions.map((session) => pay(harness, session)))
  const vendor = await harness.givenVendor()
  await checkoutEventsOnly(vendor)
  const session = await openCheckout(harness, vendor)
  const startedMs = performance.now()
  await pay(harness, session)
  await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(['charge 245']), {
    intervalMs: 20,
  })
  expect(performance.now() - startedMs).toBeLessThan(8_000)
  expect((await paymentsOf(harness, vendor))[0]!.chargeRef).toEqual(expect.stringMatching(/^ch_/))
})

fullTest('refunds take effect among many new sales', async () => {
  const vendor = await harness.givenVendor()
  const { charge, licenceId } = await givenSold(harness, vendor, { externalRef: 'refunded' })
  const sessions = await openCheckouts(harness, vendor, 30)
  const paying = Promise.all(sessions.map((session) => pay(harness, session)))
  await harness.simulator.control('refund', { charge })
  await eventually(async () =>
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' }),
  )
  await paying
  await handled(harness, vendor)
  expect(await licencesOf(harness, vendor)).toHaveLength(31)
})
