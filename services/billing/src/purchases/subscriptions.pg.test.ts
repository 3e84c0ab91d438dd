import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver, eventsAt } from '../testing/charge-story.ts'
import { startHarness, subscriptionGraceMs } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import { quiet } from '../testing/outcome.ts'
import type { Vendor } from '../testing/vendor.ts'
import {
  checkoutRefOf,
  givenSold,
  handled,
  ledgerOf,
  licenceOf,
  openCheckout,
  pay,
  paymentsOf,
  refundsOf,
  statusOf,
  sentTypes,
} from '../testing/shop.ts'
import type { Sold } from '../testing/shop.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const monthly = { price: { amount: 2980n, currency: 'jpy', mode: 'subscription' } }

type Subscribed = Sold & { vendor: Vendor; subscription: string }

async function givenSubscribed(externalRef = 'cust-1001', vendor?: Vendor): Promise<Subscribed> {
  const owner = vendor ?? (await harness.givenVendor(monthly))
  const sold = await givenSold(harness, owner, { externalRef })
  const [row] = await harness.sql<{ subscription_ref: string }[]>`
    select subscription_ref from checkout_sessions where id = ${sold.session.id}`
  return { ...sold, vendor: owner, subscription: row!.subscription_ref }
}

async function expiryOf({ vendor, licenceId }: Subscribed): Promise<number> {
  const { expiresOn } = await licenceOf(harness, vendor, licenceId)
  return Number(expiresOn!.seconds)
}

/** A licence lasts for the period and the grace after it. */
async function endWithGrace(subscription: string, vendor: Vendor): Promise<number> {
  const answer = await fetch(`${harness.simulator.url}/v1/subscriptions/${subscription}`, {
    headers: { authorization: 'Bearer sk_test_simulated', 'stripe-account': vendor.connectedAccount },
  })
  const body = (await answer.json()) as { items: { data: { current_period_end: number }[] } }
  return body.items.data[0]!.current_period_end + subscriptionGraceMs / 1000
}

const act = (name: string, subscription: string, how: object = {}) =>
  harness.simulator.control(name, { subscription, ...how })

describe('a subscription', () => {
  test('provisions one licence to its period’s end and grace, with one fee, though invoice and checkout both report it', async () => {
    const subscribed = await givenSubscribed()
    const { vendor, subscription } = subscribed
    await handled(harness)
    expect(await expiryOf(subscribed)).toBe(await endWithGrace(subscription, vendor))
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149'])
    expect(await paymentsOf(harness, vendor)).toMatchObject([
      {
        amount: 2980n,
        currency: 'jpy',
        chargeRef: expect.stringMatching(/^ch_sim/),
        sessionId: subscribed.session.id,
      },
    ])
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded']),
    )
  })

  test.each(['the refund', 'the renewal'])(
    'is active after a partial refund of its first cycle in the second in which the next is paid; %s is known first',
    async (first) => {
      const { vendor, subscription, licenceId, charge } = await givenSubscribed()
      await handled(harness)
      const account = vendor.connectedAccount
      await harness.simulator.control('delivery-rules', { action: 'drop', account })
      const before = (await eventsAt(harness, vendor)).length
      await act('renew', subscription)
      const renewal = (await eventsAt(harness, vendor)).slice(before)
      const paid = renewal.find((event) => event.type === 'invoice.paid')!
      const { status_transitions: times } = paid.data.object as { status_transitions?: { paid_at: number } }
      await harness.simulator.control('refund', { charge, amount: 100, created: times!.paid_at })
      const refund = (await eventsAt(harness, vendor)).slice(before + renewal.length)
      const groups = first === 'the refund' ? [refund, renewal] : [renewal, refund]
      for (const group of groups) {
        for (const event of group) await deliver(harness, vendor, event)
        await quiet(harness, vendor)
      }
      expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
      expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'partial_refund' }])
    },
  )

  test('that renews moves the expiry, costs its fee and sends no event', async () => {
    const subscribed = await givenSubscribed()
    const { vendor, subscription } = subscribed
    await act('renew', subscription)
    await handled(harness)
    expect(await expiryOf(subscribed)).toBe(await endWithGrace(subscription, vendor))
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
    const payments = await paymentsOf(harness, vendor)
    expect(new Set(payments.map((payment) => payment.chargeRef)).size).toBe(2)
    expect(payments.every((payment) => payment.licenceId === subscribed.licenceId)).toBe(true)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose payment fails three times in a row suspends, once, and is reactivated when it is paid', async () => {
    const { vendor, subscription, licenceId } = await givenSubscribed()
    await act('fail-invoice', subscription)
    await act('fail-invoice', subscription)
    await harness.simulator.control('delivery-rules', { action: 'duplicate', times: 3, next: 4 })
    // By hand: Stripe does not count it.
    await act('fail-invoice', subscription, { manual: true })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('fail-invoice', subscription)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({
      status: 'suspended',
      statusReason: 'payment_failed',
    })
    await act('renew', subscription)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('fail-invoice', subscription)
    await act('fail-invoice', subscription)
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.reactivated',
        'licence.suspended',
        'payment.succeeded',
      ]),
    )
  })

  test('booked to end, and that undone, stays; ended, it expires', async () => {
    const { vendor, subscription, licenceId } = await givenSubscribed()
    await act('cancel', subscription, { when: 'period_end' })
    await act('cancel', subscription, { when: 'undo' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('cancel', subscription, { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'expired' })
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'licence.expired', 'payment.succeeded']),
    )
  })

  test('that ends after the customer went over to another leaves the licence alone', async () => {
    const former = await givenSubscribed()
    const later = await givenSubscribed('cust-1001', former.vendor)
    expect(later.licenceId).toBe(former.licenceId)
    await act('cancel', former.subscription, { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, former.vendor, former.licenceId)).toMatchObject({ status: 'active' })
    await act('cancel', later.subscription, { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, former.vendor, former.licenceId)).toMatchObject({ status: 'expired' })
  })

  test('refunded for its latest cycle is revoked; for an earlier one it is reported and keeps its licence', async () => {
    const { vendor, subscription, licenceId, charge } = await givenSubscribed()
    await act('renew', subscription)
    await handled(harness)
    await harness.simulator.control('refund', { charge })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await refundsOf(harness, vendor)).toMatchObject([{ lane: 'full_refund', chargeRef: charge }])
    // The renewal has moved the customer's clock by a month: too late for a credit.
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
    const latest = (await paymentsOf(harness, vendor)).find((payment) => payment.chargeRef !== charge)!
    await harness.simulator.control('refund', { charge: latest.chargeRef })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
  })

  test('paid by a delayed method is provisioned when the money arrives', async () => {
    const vendor = await harness.givenVendor(monthly)
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { method: 'delayed' })
    await handled(harness)
    expect(await statusOf(harness, vendor, session.id)).toBe('open')
    await harness.simulator.control('pay', { session: checkoutRefOf(session) })
    await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
  })
})
