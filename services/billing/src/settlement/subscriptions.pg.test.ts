import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
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
  told,
} from '../testing/shop.ts'
import type { Sold } from '../testing/shop.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

const monthly = { price: { amount: 2980n, currency: 'jpy', mode: 'subscription' } }

type Subscribed = Sold & { vendor: Vendor; subscription: string }

async function givenSubscribed(externalRef = 'cust-1001', vendor?: Vendor): Promise<Subscribed> {
  const owner = vendor ?? (await house.givenVendor(monthly))
  const sold = await givenSold(house, owner, { externalRef })
  const [row] = await house.sql<{ subscription_ref: string }[]>`
    select subscription_ref from checkout_sessions where id = ${sold.session.id}`
  return { ...sold, vendor: owner, subscription: row!.subscription_ref }
}

async function expiryOf({ vendor, licenceId }: Subscribed): Promise<number> {
  const { expiresOn } = await licenceOf(house, vendor, licenceId)
  return Number(expiresOn!.seconds)
}

async function periodEnd(subscription: string, vendor: Vendor): Promise<number> {
  const answer = await fetch(`${house.simulator.url}/v1/subscriptions/${subscription}`, {
    headers: { authorization: 'Bearer sk_test_simulated', 'stripe-account': vendor.connectedAccount },
  })
  const body = (await answer.json()) as { items: { data: { current_period_end: number }[] } }
  return body.items.data[0]!.current_period_end
}

const act = (name: string, subscription: string, how: object = {}) =>
  house.simulator.control(name, { subscription, ...how })

describe('a subscription', () => {
  test('provisions one licence to its period’s end, with one fee, though invoice and checkout both tell of it', async () => {
    const subscribed = await givenSubscribed()
    const { vendor, subscription } = subscribed
    await handled(house)
    expect(await expiryOf(subscribed)).toBe(await periodEnd(subscription, vendor))
    expect(await ledgerOf(house, vendor)).toEqual(['charge 149'])
    expect(await paymentsOf(house, vendor)).toMatchObject([
      {
        amount: 2980n,
        currency: 'jpy',
        chargeRef: expect.stringMatching(/^ch_sim/),
        sessionId: subscribed.session.id,
      },
    ])
    await eventually(() => expect(told(house, vendor)).toEqual(['licence.created', 'payment.succeeded']))
  })

  test('that renews moves the expiry, costs its fee and tells nobody', async () => {
    const subscribed = await givenSubscribed()
    const { vendor, subscription } = subscribed
    await act('renew', subscription)
    await handled(house)
    expect(await expiryOf(subscribed)).toBe(await periodEnd(subscription, vendor))
    expect(await ledgerOf(house, vendor)).toEqual(['charge 149', 'charge 149'])
    const payments = await paymentsOf(house, vendor)
    expect(new Set(payments.map((payment) => payment.chargeRef)).size).toBe(2)
    expect(payments.every((payment) => payment.licenceId === subscribed.licenceId)).toBe(true)
    expect(told(house, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose payment fails three times in a row suspends, once, and is reactivated when it is paid', async () => {
    const { vendor, subscription, licenceId } = await givenSubscribed()
    await act('fail-invoice', subscription)
    await act('fail-invoice', subscription)
    await house.simulator.control('delivery-rules', { action: 'duplicate', times: 3, next: 4 })
    // By hand: Stripe does not count it.
    await act('fail-invoice', subscription, { manual: true })
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('fail-invoice', subscription)
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({
      status: 'suspended',
      statusReason: 'payment_failed',
    })
    await act('renew', subscription)
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('fail-invoice', subscription)
    await act('fail-invoice', subscription)
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'active' })
    await eventually(() =>
      expect(told(house, vendor)).toEqual([
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
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act('cancel', subscription, { when: 'now' })
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'expired' })
    await eventually(() =>
      expect(told(house, vendor)).toEqual(['licence.created', 'licence.expired', 'payment.succeeded']),
    )
  })

  test('that ends after the customer went over to another leaves the licence alone', async () => {
    const former = await givenSubscribed()
    const later = await givenSubscribed('cust-1001', former.vendor)
    expect(later.licenceId).toBe(former.licenceId)
    await act('cancel', former.subscription, { when: 'now' })
    await handled(house)
    expect(await licenceOf(house, former.vendor, former.licenceId)).toMatchObject({ status: 'active' })
    await act('cancel', later.subscription, { when: 'now' })
    await handled(house)
    expect(await licenceOf(house, former.vendor, former.licenceId)).toMatchObject({ status: 'expired' })
  })

  test('refunded for its latest cycle is revoked; for an earlier one it is told and keeps its licence', async () => {
    const { vendor, subscription, licenceId, charge } = await givenSubscribed()
    await act('renew', subscription)
    await handled(house)
    await house.simulator.control('refund', { charge })
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'active' })
    expect(await refundsOf(house, vendor)).toMatchObject([{ lane: 'full_refund', chargeRef: charge }])
    expect(await ledgerOf(house, vendor)).toEqual(['charge 149', 'charge 149', 'credit -149'])
    const latest = (await paymentsOf(house, vendor)).find((payment) => payment.chargeRef !== charge)!
    await house.simulator.control('refund', { charge: latest.chargeRef })
    await handled(house)
    expect(await licenceOf(house, vendor, licenceId)).toMatchObject({ status: 'revoked' })
  })

  test('paid by a delayed method is provisioned when the money arrives', async () => {
    const vendor = await house.givenVendor(monthly)
    const session = await openCheckout(house, vendor)
    await pay(house, session, { method: 'delayed' })
    await handled(house)
    expect(await statusOf(house, vendor, session.id)).toBe('open')
    await house.simulator.control('pay', { session: checkoutRefOf(session) })
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
  })
})
