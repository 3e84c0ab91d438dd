import {
  asVendor,
  givenPayment,
  givenPrice,
  givenSession,
  givenSubscription,
  idOf,
  vendor,
} from './support.ts'
import type { World } from './support.ts'

const metadata = { licensing_session_id: 'chk_1', plan_id: 'plan_1' }
const withFee = { payment_intent_data: { application_fee_amount: 245, metadata }, metadata }
const subscribing = { subscription_data: { application_fee_percent: 5, metadata }, metadata }

/** Runs every feature of the simulator at least once. */
export async function runAllFeatures(world: World): Promise<void> {
  await runPayments(world)
  await runDisputes(world)
  await runSubscriptions(world)
  await runPriceChanges(world)
  await runItems(world)
  await world.stripe.webhookEndpoints.create({
    url: 'http://127.0.0.1:9/',
    enabled_events: ['invoice.paid'],
    connect: true,
    api_version: '2026-10-28.endive',
  })
  const account = 'acct_simLeaving'
  await world.simulator.control('deauthorize', { account })
  await world.simulator.control('authorize', { account })
  await world.simulator.settled()
}

async function runPayments(world: World): Promise<void> {
  const { simulator, stripe } = world
  const paid = await givenPayment(world, withFee)
  await simulator.control('refund', { charge: paid.charge, amount: 1900 })
  const pending = await simulator.control('refund', { charge: paid.charge, status: 'pending' })
  await simulator.control('refund-status', { refund: pending['id'], status: 'succeeded' })
  await simulator.control('refund-status', { refund: pending['id'], status: 'failed' })
  const [fee] = (await stripe.applicationFees.list({ charge: paid.charge })).data
  await stripe.applicationFees.createRefund(fee?.id ?? '', { amount: 100 })
  await simulator.control('settings', { account: vendor, capture: 'asynchronous' })
  const { charge } = await givenPayment(world, withFee)
  await simulator.control('capture', { charge })
  await simulator.control('settings', { account: vendor, capture: 'immediate' })

  for (const outcome of ['pay', 'fail']) {
    const { id } = await givenSession(world, { metadata })
    await simulator.control('pay', { session: id, method: 'delayed' })
    await simulator.control(outcome, { session: id })
    if (outcome === 'pay') await simulator.control('refund', { charge: id, status: 'requires_action' })
  }
  const declined = await givenSession(world)
  await simulator.control('fail', { session: declined.id })
  await simulator.control('pay', { session: declined.id, discount: 100 })
  const free = await givenSession(world)
  await simulator.control('pay', { session: free.id, discount: 4900 })
  const abandoned = await givenSession(world)
  await simulator.control('expire', { session: abandoned.id })
}

async function runDisputes(world: World): Promise<void> {
  const { simulator } = world
  for (const outcome of ['won', 'lost', 'escalated', 'warning_closed']) {
    const { charge } = await givenPayment(world)
    const kind = outcome === 'won' || outcome === 'lost' ? 'chargeback' : 'inquiry'
    const { id: dispute } = await simulator.control<{ id: string }>('dispute', { charge, kind })
    if (outcome === 'escalated') await simulator.control('escalate-dispute', { dispute })
    else await simulator.control('close-dispute', { dispute, outcome })
  }
}

async function runSubscriptions(world: World): Promise<void> {
  const { simulator } = world
  const { subscription } = await givenSubscription(world, subscribing)
  await simulator.control('renew', { subscription })
  await simulator.control('fail-invoice', { subscription })
  await simulator.control('renew', { subscription })
  await simulator.control('cancel', { subscription, when: 'period_end' })
  await simulator.control('cancel', { subscription, when: 'undo' })
  const { customer } = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
  await world.stripe.billingPortal.sessions.create({ customer: idOf(customer) }, asVendor)
  await simulator.control('change-card', { subscription })
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    await simulator.control('fail-invoice', { subscription, after_final: 'leave' })
  }
  await simulator.control('cancel', { subscription, reason: 'payment_failed' })
  const delayed = await givenSession(world, { mode: 'subscription', ...subscribing })
  await simulator.control('pay', { session: delayed.id, method: 'delayed' })
  await simulator.control('fail', { session: delayed.id })
}

async function runPriceChanges(world: World): Promise<void> {
  const { simulator } = world
  const low = await givenPrice(simulator, { amount: 1000, recurring: 'month' })
  const high = await givenPrice(simulator, { amount: 3000, recurring: 'month' })
  const yearly = await givenPrice(simulator, { amount: 20_000, recurring: 'year' })
  const { subscription } = await givenSubscription(world, {
    price: low,
    created: 1_793_703_600,
    ...subscribing,
  })
  const half = { created: 1_793_703_600 + 15 * 86_400 }
  await simulator.control('change-price', { subscription, price: high, ...half })
  await simulator.control('change-price', { subscription, price: low, ...half })
  await simulator.control('change-price', { subscription, price: high, proration: 'create_prorations' })
  await simulator.control('renew', { subscription })
  await simulator.control('change-price', { subscription, price: yearly })
}

async function runItems(world: World): Promise<void> {
  const { simulator } = world
  const price = await givenPrice(simulator, { amount: 1000, recurring: 'month' })
  const extra = await givenPrice(simulator, { amount: 500, recurring: 'month' })
  const yearly = await givenPrice(simulator, { amount: 20_000, recurring: 'year' })
  const { subscription } = await givenSubscription(world, { price, ...subscribing })
  await simulator.control('add-item', { subscription, price: yearly })
  const { items } = await simulator.control<{ items: { data: { id: string }[] } }>('add-item', {
    subscription,
    price: extra,
  })
  await simulator.control('remove-item', { subscription, item: items.data.at(-1)?.id })
  await simulator.control('invoice-item', { subscription, count: 12 })
  await simulator.control('renew', { subscription })
  for (const behavior of ['keep_as_draft', 'mark_uncollectible', 'void']) {
    await simulator.control('pause-collection', { subscription, behavior })
    await simulator.control('renew', { subscription })
  }
  await simulator.control('pause-collection', { subscription })
  await simulator.control('settings', { account: vendor, tax_percent: 19 })
  await givenSubscription(world, { price, ...subscribing })
  await simulator.control('settings', { account: vendor, tax_percent: 0 })
}
