import type Stripe from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asVendor, eventsOf, givenPayment, startWorld } from '../test/support.ts'
import type { World } from '../test/support.ts'
import { eventTypes } from './objects/event.ts'

let world: World
beforeAll(async () => void (world = await startWorld(eventTypes)))
afterAll(() => world[Symbol.asyncDispose]())

const chargeNow = (id: string): Promise<Stripe.Charge> => world.stripe.charges.retrieve(id, {}, asVendor)

const refund = (charge: string, how: object = {}): Promise<Record<string, unknown>> =>
  world.simulator.control('refund', { charge, ...how })

test('partial refunds add up to at most the whole charge', async () => {
  const { stripe } = world
  const { charge, intent } = await givenPayment(world)
  await refund(charge, { amount: 1900, created: 1_793_869_200 })
  expect(await chargeNow(charge)).toMatchObject({ amount_refunded: 1900, refunded: false })
  await expect(refund(intent, { amount: 3001 })).rejects.toThrow(
    'Refund amount (30.01 USD) is greater than unrefunded amount on charge (30.00 USD)',
  )
  await refund(intent)
  expect(await chargeNow(charge)).toMatchObject({ amount_refunded: 4900, refunded: true })
  await expect(refund(charge)).rejects.toThrow('charge_already_refunded')
  const { data } = await stripe.refunds.list({ charge }, asVendor)
  expect(new Map(data.map(({ amount, created }) => [amount, created])).get(1900)).toBe(1_793_869_200)
  expect(data.map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([1900, 3000])
})

test('the platform keeps its fee after a refund, and refunds it in parts, never more than the fee, and never twice', async () => {
  const { stripe } = world
  const { charge } = await givenPayment(world, { payment_intent_data: { application_fee_amount: 245 } })
  await refund(charge)
  const id = (await stripe.applicationFees.list({ charge })).data[0]?.id ?? ''
  expect((await stripe.applicationFees.list({ charge })).data[0]).toMatchObject({ amount_refunded: 0 })
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
  const pending = await refund(charge, { status: 'pending' })
  expect(pending).toMatchObject({ status: 'pending', pending_reason: 'processing' })
  expect(await chargeNow(charge)).toMatchObject({ refunded: true })
  const failed = await simulator.control('refund-status', { refund: pending['id'], status: 'failed' })
  expect(failed).toMatchObject({ status: 'failed', failure_reason: 'unknown' })
  expect(failed).not.toHaveProperty('pending_reason')
  expect(await chargeNow(charge)).toMatchObject({ refunded: false, amount_refunded: 0 })
})

test('a refund can fail after it has succeeded, and the event has the previous status', async () => {
  const { simulator, receiver } = world
  const { charge } = await givenPayment(world)
  const { id } = await refund(charge)
  await simulator.control('refund-status', { refund: id, status: 'failed' })
  await simulator.settled()
  for (const type of ['refund.updated', 'refund.failed']) {
    const event = eventsOf(receiver, type).find((each) => Object(each.data.object).id === id)
    expect(event?.data).toMatchObject({
      object: { status: 'failed' },
      previous_attributes: { status: 'succeeded' },
    })
  }
  const again = simulator.control('refund-status', { refund: id, status: 'succeeded' })
  await expect(again).rejects.toThrow('which is its end')
})

/** The types of the events about a dispute. */
async function typesAbout(dispute: unknown): Promise<string[]> {
  await world.simulator.settled()
  return world.receiver.received
    .map(({ event }) => event)
    .filter(({ data }) => Object(data.object).id === dispute)
    .map(({ type }) => type.replace('charge.dispute.', ''))
    .toSorted()
}

test('a chargeback withdraws the money and forbids refunds', async () => {
  const { simulator, stripe } = world
  const { charge } = await givenPayment(world)
  await simulator.control('dispute', { charge })
  const [dispute] = (await stripe.disputes.list({ charge }, asVendor)).data
  expect(dispute).toMatchObject({ status: 'needs_response', amount: 4900, is_charge_refundable: false })
  expect(dispute?.balance_transactions).toHaveLength(1)
  expect(await chargeNow(charge)).toMatchObject({ disputed: true })
  await expect(refund(charge)).rejects.toThrow('charge_disputed')
  expect(await refund(charge, { force: true })).toMatchObject({ amount: 4900 })
})

test('an inquiry moves no money, and escalates into a chargeback', async () => {
  const { simulator } = world
  const { charge } = await givenPayment(world)
  const inquiry = await simulator.control('dispute', { charge, kind: 'inquiry', amount: 1000 })
  expect(inquiry).toMatchObject({
    status: 'warning_needs_response',
    amount: 1000,
    balance_transactions: [],
    is_charge_refundable: true,
    payment_method_details: { card: { case_type: 'inquiry' } },
  })
  await refund(charge, { amount: 1 })
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
  ['chargeback', 'lost'],
  ['chargeback', 'won'],
  ['inquiry', 'warning_closed'],
])('a %s can close as %s', async (kind, outcome) => {
  const closed = await closeNew(kind, outcome)
  expect(closed).toMatchObject({ object: 'dispute', status: outcome })
  expect(await typesAbout(closed['id'])).toEqual(['closed', 'created'])
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
  await refund(charge)
  await expect(simulator.control('dispute', { charge })).rejects.toThrow('refunded in full')
  expect(await simulator.control('dispute', { charge, force: true })).toMatchObject({ charge })
})
