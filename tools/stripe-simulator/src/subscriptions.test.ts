import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asVendor,
  chargesOf,
  eventsOf,
  givenPrice,
  givenSession,
  givenSubscription,
  startWorld,
  idOf,
} from '../test/support.ts'
import type { World } from '../test/support.ts'
import { eventTypes } from './objects/event.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

/** The types that the action sends, in the order of arrival. */
async function typesSent(action: () => Promise<unknown>): Promise<string[]> {
  await world.simulator.settled()
  const before = world.receiver.received.length
  await action()
  await world.simulator.settled()
  return world.receiver.types().slice(before)
}

test('paying starts the subscription, and its invoice is paid before the session completes', async () => {
  await using own = await startWorld(eventTypes)
  const { session, subscription } = await givenSubscription(own, {
    subscription_data: { application_fee_percent: 5, metadata: { sid: 'chk_s' } },
  })
  expect(session).toMatchObject({ payment_status: 'paid', payment_intent: null })
  const found = await own.stripe.subscriptions.retrieve(subscription, {}, asVendor)
  expect(found).toMatchObject({
    status: 'active',
    metadata: { sid: 'chk_s' },
    latest_invoice: session.invoice,
  })
  const emitted = await own.stripe.events.list({ limit: 100 }, asVendor)
  const types = emitted.data.map(({ type }) => type).toReversed()
  expect(types.indexOf('invoice.paid')).toBeLessThan(types.indexOf('checkout.session.completed'))
})

test('the subscription of a charge can be found through the invoice payment', async () => {
  const { stripe } = world
  const { session, subscription } = await givenSubscription(world, {
    subscription_data: { application_fee_percent: 5, metadata: { sid: 'chk_t' } },
  })
  const invoice = await stripe.invoices.retrieve(idOf(session.invoice), { expand: ['payments'] }, asVendor)
  const intent = idOf(invoice.payments?.data[0]?.payment.payment_intent)
  const [charge] = await chargesOf(world, intent)
  expect(charge).toMatchObject({ amount: 2980, application_fee_amount: 149, metadata: {} })
  const payments = await stripe.invoicePayments.list(
    { payment: { type: 'payment_intent', payment_intent: intent } },
    asVendor,
  )
  expect(payments.data).toMatchObject([{ invoice: invoice.id, status: 'paid', amount_paid: 2980 }])
  const ofInvoice = await stripe.invoicePayments.list({ invoice: invoice.id }, asVendor)
  expect(ofInvoice.data).toEqual(payments.data)
  expect(invoice.parent?.subscription_details).toMatchObject({ subscription, metadata: { sid: 'chk_t' } })
})

test('a renewal moves the period on by a month from the anchor, and is paid', async () => {
  await using own = await startWorld()
  const { subscription } = await givenSubscription(own, { created: Date.UTC(2027, 0, 31, 12) / 1000 })
  const ends: string[] = []
  for (let month = 0; month < 3; month += 1) {
    const { items } = await own.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    ends.push(new Date((items.data[0]?.current_period_end ?? 0) * 1000).toISOString().slice(0, 10))
    await own.simulator.control('renew', { subscription })
  }
  expect(ends).toEqual(['2027-02-28', '2027-03-31', '2027-04-30'])
  await own.simulator.settled()
  const reasons = eventsOf(own.receiver, 'invoice.paid').map((event) =>
    String(Object(event.data.object).billing_reason),
  )
  expect(reasons.toSorted()).toEqual([
    'subscription_create',
    'subscription_cycle',
    'subscription_cycle',
    'subscription_cycle',
  ])
})

test('after the last failure the vendor may have it cancelled', async () => {
  const { simulator, stripe } = world
  const { subscription } = await givenSubscription(world)
  const last = async () => {
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      await simulator.control('fail-invoice', { subscription, after_final: 'cancel' })
    }
  }
  expect(await typesSent(last)).toContain('customer.subscription.deleted')
  const ended = await stripe.subscriptions.retrieve(subscription, {}, asVendor)
  expect(ended).toMatchObject({ status: 'canceled', cancellation_details: { reason: 'payment_failed' } })
})

test('a cancel at the period end can be undone, and otherwise ends the subscription with the period', async () => {
  const { simulator, stripe } = world
  const { subscription } = await givenSubscription(world)
  const book = () => simulator.control('cancel', { subscription, when: 'period_end' })
  expect(await book()).toMatchObject({ status: 'active', cancel_at_period_end: true })
  const undone = await simulator.control('cancel', { subscription, when: 'undo' })
  expect(undone).toMatchObject({ cancel_at_period_end: false, cancel_at: null })
  await book()
  expect(await typesSent(() => simulator.control('renew', { subscription }))).toEqual([
    'customer.subscription.deleted',
  ])
  const ended = await stripe.subscriptions.retrieve(subscription, {}, asVendor)
  expect(ended).toMatchObject({ status: 'canceled', ended_at: ended.cancel_at })
})

test('a subscription cancelled now ends at once and cannot be cancelled again', async () => {
  const { subscription } = await givenSubscription(world)
  const ended = await world.simulator.control('cancel', { subscription })
  expect(ended).toMatchObject({
    status: 'canceled',
    ended_at: expect.any(Number),
    cancellation_details: { reason: 'cancellation_requested' },
  })
  await expect(world.simulator.control('cancel', { subscription })).rejects.toThrow('has ended')
})

test('a delayed first payment that fails leaves the invoice open and the subscription past due', async () => {
  const { simulator, stripe } = world
  const { id } = await givenSession(world, { mode: 'subscription' })
  await simulator.control('pay', { session: id, method: 'delayed' })
  const types = await typesSent(() => simulator.control('fail', { session: id }))
  expect(types.toSorted()).toEqual([
    'checkout.session.async_payment_failed',
    'customer.subscription.updated',
    'invoice.payment_failed',
  ])
  const session = await stripe.checkout.sessions.retrieve(
    id,
    { expand: ['subscription', 'invoice'] },
    asVendor,
  )
  expect(session).toMatchObject({
    payment_status: 'unpaid',
    subscription: { status: 'past_due' },
    invoice: { status: 'open', billing_reason: 'subscription_create' },
  })
})

test('a free subscription has paid invoices and no charge', async () => {
  const price = await givenPrice(world.simulator, { amount: 0, recurring: 'month' })
  const { session } = await givenSubscription(world, { price })
  const invoice = await world.stripe.invoices.retrieve(
    idOf(session.invoice),
    { expand: ['payments'] },
    asVendor,
  )
  expect(session.payment_status).toBe('no_payment_required')
  expect(invoice).toMatchObject({ status: 'paid', amount_paid: 0, payments: { data: [] } })
})
