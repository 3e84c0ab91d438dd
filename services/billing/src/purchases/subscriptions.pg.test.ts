import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver, eventsAt } from '../../test/charge-story.ts'
import { startHarness, subscriptionGraceMs } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { quiet } from '../../test/outcome.ts'
import {
  checkoutRefOf,
  handled,
  ledgerOf,
  licenceOf,
  openCheckout,
  pay,
  paymentsOf,
  refundsOf,
  sentTypes,
  statusOf,
} from '../../test/shop.ts'
import { act, alertsOf, endWithGrace, expiryOf, givenSubscribed, monthly } from '../../test/subscribed.ts'
import { anotherPlan } from '../../test/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

describe('a subscription', () => {
  test('provisions one licence to its period’s end and grace, with one fee, though invoice and checkout both report it', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    await handled(harness)
    expect(await expiryOf(harness, subscribed)).toBe(await endWithGrace(harness, subscribed))
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
      const vendor = await harness.givenVendor(monthly)
      const subscribed = await givenSubscribed(harness, vendor)
      const { licenceId, charge } = subscribed
      await handled(harness)
      const account = vendor.connectedAccount
      await harness.simulator.control('delivery-rules', { action: 'drop', account })
      const before = (await eventsAt(harness, vendor)).length
      await act(harness, subscribed, 'renew')
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
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    await act(harness, subscribed, 'renew')
    await handled(harness)
    expect(await expiryOf(harness, subscribed)).toBe(await endWithGrace(harness, subscribed))
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
    const payments = await paymentsOf(harness, vendor)
    expect(new Set(payments.map((payment) => payment.chargeRef)).size).toBe(2)
    expect(payments.every((payment) => payment.licenceId === subscribed.licenceId)).toBe(true)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose payment fails three times in a row suspends, once, and is reactivated when it is paid', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId } = subscribed
    await act(harness, subscribed, 'fail-invoice')
    await act(harness, subscribed, 'fail-invoice')
    await harness.simulator.control('delivery-rules', { action: 'duplicate', times: 3, next: 4 })
    // This attempt is manual, so Stripe does not count it.
    await act(harness, subscribed, 'fail-invoice', { manual: true })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act(harness, subscribed, 'fail-invoice')
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({
      status: 'suspended',
      statusReason: 'payment_failed',
    })
    await act(harness, subscribed, 'renew')
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act(harness, subscribed, 'fail-invoice')
    await act(harness, subscribed, 'fail-invoice')
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

  test.each(['payment_failed', 'cancellation_requested'])(
    'ended (%s) after three failures sends its suspension and its end, though the end is reported long before the failures',
    async (reason) => {
      const vendor = await harness.givenVendor(monthly)
      const subscribed = await givenSubscribed(harness, vendor)
      await handled(harness)
      await harness.simulator.control('delivery-rules', { action: 'drop', account: vendor.connectedAccount })
      const before = (await eventsAt(harness, vendor)).length
      for (let failed = 0; failed < 3; failed += 1) await act(harness, subscribed, 'fail-invoice')
      await act(harness, subscribed, 'cancel', { when: 'now', reason })
      const events = (await eventsAt(harness, vendor)).slice(before)
      const isEnd = ({ type }: { type: string }) => type === 'customer.subscription.deleted'
      await deliver(harness, vendor, events.find(isEnd)!)
      await quiet(harness, vendor)
      for (const event of events.filter((each) => !isEnd(each))) await deliver(harness, vendor, event)
      await quiet(harness, vendor)
      expect(await licenceOf(harness, vendor, subscribed.licenceId)).toMatchObject({ status: 'expired' })
      expect(sentTypes(harness, vendor)).toEqual([
        'licence.created',
        'licence.expired',
        'licence.suspended',
        'payment.succeeded',
      ])
    },
  )

  test('stays active if its scheduled end is removed, and expires when it ends', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId } = subscribed
    await act(harness, subscribed, 'cancel', { when: 'period_end' })
    await act(harness, subscribed, 'cancel', { when: 'undo' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    await act(harness, subscribed, 'cancel', { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'expired' })
    await eventually(() =>
      expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'licence.expired', 'payment.succeeded']),
    )
  })

  test('refunded for its latest cycle is revoked; for an earlier one it is reported and keeps its licence', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId, charge } = subscribed
    await act(harness, subscribed, 'renew')
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

  test('that is paid three days after its period’s end is never interrupted', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId } = subscribed
    const before = Number((await licenceOf(harness, vendor, licenceId)).expiresOn!.seconds)
    await act(harness, subscribed, 'renew', { paid_after_seconds: 3 * 86_400 })
    await handled(harness)
    const renewal = (await paymentsOf(harness, vendor)).at(0)!
    const paidAt = Number(renewal.occurredAt!.seconds)
    // The licence was valid until then, although its period was over.
    expect(paidAt).toBeGreaterThan(before - subscriptionGraceMs / 1000)
    expect(paidAt).toBeLessThan(before)
    const after = Number((await licenceOf(harness, vendor, licenceId)).expiresOn!.seconds)
    expect(after - before).toBeGreaterThan(27 * 86_400)
    expect(sentTypes(harness, vendor)).toEqual(['licence.created', 'payment.succeeded'])
  })

  test('whose price changes moves the licence to the new price’s plan; a refund of the proration changes no licence', async () => {
    const vendor = await harness.givenVendor(monthly)
    const better = await anotherPlan(harness, vendor, {
      amount: 9800n,
      mode: 'subscription',
      currency: 'jpy',
    })
    // A checkout makes the better price known to the processor.
    await givenSubscribed(harness, better, 'somebody-else')
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId } = subscribed
    await act(harness, subscribed, 'change-price', { price: better.priceId, proration: 'always_invoice' })
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
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId } = subscribed
    const { accountId } = vendor
    await harness.licensing.revokeLicence({ accountId, licenceId, actor: 'key_test' })
    await act(harness, subscribed, 'renew')
    await handled(harness)
    await eventually(() => expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence']))
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' })
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 149', 'charge 149'])
  })

  test('that is paid after a chargeback raises an alert, also if the renewal is reported first', async () => {
    const vendor = await harness.givenVendor(monthly)
    const subscribed = await givenSubscribed(harness, vendor)
    const { licenceId, charge } = subscribed
    const types = ['charge.dispute.created', 'charge.dispute.funds_withdrawn']
    const account = vendor.connectedAccount
    await harness.simulator.control('delivery-rules', { action: 'drop', types, account })
    await harness.simulator.control('dispute', { charge })
    await act(harness, subscribed, 'renew')
    await act(harness, subscribed, 'renew')
    await handled(harness)
    expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'active' })
    const [disputed] = (await eventsAt(harness, vendor)).filter((event) => types.includes(event.type))
    await deliver(harness, vendor, disputed!)
    await eventually(async () =>
      expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' }),
    )
    const lost = 'renewal_without_licence'
    await eventually(() => expect(alertsOf(harness, vendor)).toEqual([lost, lost]))
    // A refund of the charged back payment raises no further alert.
    await harness.simulator.control('refund', { charge, force: true, created: Math.ceil(Date.now() / 1000) })
    await handled(harness)
    await harness.events.caughtUp()
    expect(alertsOf(harness, vendor)).toEqual([lost, lost])
  })
})
