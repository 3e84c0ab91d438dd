import type Stripe from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asVendor, eventsOf, givenPayment, startWorld } from './test-support.ts'
import type { World } from './test-support.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const chargeNow = (id: string): Promise<Stripe.Charge> => world.stripe.charges.retrieve(id, {}, asVendor)

test('partial refunds add up to at most the whole charge', async () => {
  const { stripe } = world
  const { charge, intent } = await givenPayment(world)
  await stripe.refunds.create({ charge, amount: 1900 }, asVendor)
  expect(await chargeNow(charge)).toMatchObject({ amount_refunded: 1900, refunded: false })
  const tooMuch = stripe.refunds.create({ payment_intent: intent, amount: 3001 }, asVendor)
  await expect(tooMuch).rejects.toThrow(
    'Refund amount (30.01 USD) is greater than unrefunded amount on charge (30.00 USD)',
  )
  await stripe.refunds.create({ payment_intent: intent }, asVendor)
  expect(await chargeNow(charge)).toMatchObject({ amount_refunded: 4900, refunded: true })
  await expect(stripe.refunds.create({ charge }, asVendor)).rejects.toMatchObject({
    statusCode: 400,
    code: 'charge_already_refunded',
  })
  const refunds = await stripe.refunds.list({ charge }, asVendor)
  expect(refunds.data.map(({ amount }) => amount)).toEqual([3000, 1900])
})

test('the platform keeps the application fee after a refund, unless the refund returns it in proportion', async () => {
  const { stripe, simulator } = world
  const fee = async (charge: string) => (await stripe.applicationFees.list({ charge })).data[0]
  const [kept, returned] = [
    await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } }),
    await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } }),
  ]
  await simulator.control('refund', { charge: kept.charge })
  expect(await fee(kept.charge)).toMatchObject({ amount_refunded: 0, refunded: false })
  const refund_application_fee = true
  await stripe.refunds.create({ charge: returned.charge, amount: 2450, refund_application_fee }, asVendor)
  expect(await fee(returned.charge)).toMatchObject({ amount_refunded: 122 })
  await stripe.refunds.create({ charge: returned.charge, refund_application_fee }, asVendor)
  expect(await fee(returned.charge)).toMatchObject({ amount_refunded: 245, refunded: true })
})

test('the platform refunds a fee in parts, never more than the fee, and never twice', async () => {
  const { stripe } = world
  const { charge } = await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } })
  const id = (await stripe.applicationFees.list({ charge })).data[0]?.id ?? ''
  await stripe.applicationFees.createRefund(id, { amount: 100 })
  await expect(stripe.applicationFees.createRefund(id, { amount: 146 })).rejects.toThrow('greater than')
  await stripe.applicationFees.createRefund(id)
  await expect(stripe.applicationFees.createRefund(id)).rejects.toThrow('already been refunded')
  const refunds = await stripe.applicationFees.listRefunds(id)
  expect(refunds.data.map(({ amount }) => amount)).toEqual([145, 100])
})

test('a pending refund counts against the charge until it fails', async () => {
  const { simulator } = world
  const { charge } = await givenPayment(world)
  const refund = await simulator.control('refund', { charge, status: 'pending' })
  expect(refund).toMatchObject({ status: 'pending', pending_reason: 'processing' })
  expect(await chargeNow(charge)).toMatchObject({ refunded: true })
  const failed = await simulator.control('refund-status', { refund: refund['id'], status: 'failed' })
  expect(failed).toMatchObject({ status: 'failed', failure_reason: 'unknown' })
  expect(failed).not.toHaveProperty('pending_reason')
  expect(await chargeNow(charge)).toMatchObject({ refunded: false, amount_refunded: 0 })
})

test('a refund can fail after it has succeeded, and the event has the previous status', async () => {
  const { simulator, receiver } = world
  const { charge } = await givenPayment(world)
  const { id } = await simulator.control<{ id: string }>('refund', { charge })
  await simulator.control('refund-status', { refund: id, status: 'failed', failure_reason: 'declined' })
  await simulator.settled()
  for (const type of ['refund.updated', 'refund.failed']) {
    const event = eventsOf(receiver, type).find((each) => Object(each.data.object).id === id)
    expect(event?.data).toMatchObject({
      object: { status: 'failed', failure_reason: 'declined' },
      previous_attributes: { status: 'succeeded' },
    })
  }
  await expect(simulator.control('refund-status', { refund: id, status: 'succeeded' })).rejects.toThrow(
    'which is its end',
  )
})

test('a refund happens at the given time', async () => {
  const { charge } = await givenPayment(world)
  const refund = await world.simulator.control('refund', { charge, amount: 1, created: 1_793_869_200 })
  expect(refund['created']).toBe(1_793_869_200)
})

test('a chargeback withdraws the money and forbids refunds', async () => {
  const { simulator, stripe } = world
  const { charge } = await givenPayment(world)
  const { id } = await simulator.control<{ id: string }>('dispute', { charge })
  const dispute = await stripe.disputes.retrieve(id, {}, asVendor)
  expect(dispute).toMatchObject({ status: 'needs_response', amount: 4900, is_charge_refundable: false })
  expect(dispute.balance_transactions).toHaveLength(1)
  expect(await chargeNow(charge)).toMatchObject({ disputed: true })
  await expect(stripe.refunds.create({ charge }, asVendor)).rejects.toMatchObject({ code: 'charge_disputed' })
  expect(await simulator.control('refund', { charge, force: true })).toMatchObject({ amount: 4900 })
})

test('an inquiry moves no money, and escalates into a chargeback', async () => {
  const { simulator, stripe } = world
  const { charge } = await givenPayment(world)
  const inquiry = await simulator.control('dispute', { charge, kind: 'inquiry', amount: 1000 })
  expect(inquiry).toMatchObject({
    status: 'warning_needs_response',
    amount: 1000,
    balance_transactions: [],
    is_charge_refundable: true,
    payment_method_details: { card: { case_type: 'inquiry' } },
  })
  await stripe.refunds.create({ charge, amount: 1 }, asVendor)
  const escalated = await simulator.control('escalate-dispute', { dispute: inquiry['id'] })
  expect(escalated).toMatchObject({
    status: 'needs_response',
    is_charge_refundable: false,
    payment_method_details: { card: { case_type: 'chargeback' } },
  })
  await simulator.settled()
  expect(eventsOf(world.receiver, 'charge.dispute.updated').at(-1)?.data).toMatchObject({
    object: { id: inquiry['id'], balance_transactions: [{ amount: -1000 }] },
    previous_attributes: { status: 'warning_needs_response', balance_transactions: [] },
  })
})

async function closeNew(kind: string, outcome: string): Promise<Record<string, unknown>> {
  const { charge } = await givenPayment(world)
  const { id } = await world.simulator.control<{ id: string }>('dispute', { charge, kind })
  return world.simulator.control('close-dispute', { dispute: id, outcome })
}

test.each([
  ['chargeback', 'won'],
  ['chargeback', 'lost'],
  ['inquiry', 'warning_closed'],
])('a %s can close as %s', async (kind, outcome) => {
  expect(await closeNew(kind, outcome)).toMatchObject({ object: 'dispute', status: outcome })
})

test.each([
  ['chargeback', 'warning_closed'],
  ['inquiry', 'won'],
])('a %s cannot close as %s', async (kind, outcome) => {
  await expect(closeNew(kind, outcome)).rejects.toThrow('cannot end as')
})

test('a fully refunded charge cannot be disputed, except with `force`', async () => {
  const { simulator } = world
  const { charge } = await givenPayment(world)
  await simulator.control('refund', { charge })
  await expect(simulator.control('dispute', { charge })).rejects.toThrow('refunded in full')
  expect(await simulator.control('dispute', { charge, force: true })).toMatchObject({ charge })
})
