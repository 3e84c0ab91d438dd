import type { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SimulatedEvent } from './objects/event.ts'
import {
  asVendor,
  chargesOf,
  givenSession,
  givenSubscription,
  invoicesOf,
  startWorld,
} from '../test/support.ts'
import type { World } from '../test/support.ts'
import { eventTypes } from './objects/event.ts'

const minute = 60
const hour = 60 * minute
const day = 24 * hour
const started = Date.UTC(2027, 0, 10, 9) / 1000
const firstEnd = Date.UTC(2027, 1, 10, 9) / 1000
const secondEnd = Date.UTC(2027, 2, 10, 9) / 1000

let world: World
beforeAll(async () => {
  world = await startWorld(eventTypes)
})
afterAll(() => world[Symbol.asyncDispose]())

async function eventsAbout(subscription: string, type: string): Promise<SimulatedEvent[]> {
  const { data } = (await (await fetch(`${world.simulator.url}/_sim/events`)).json()) as {
    data: { event: SimulatedEvent }[]
  }
  return data
    .map(({ event }) => event)
    .filter(({ type: of, data: { object } }) => {
      const { id, parent } = object as Partial<Stripe.Invoice>
      const about = id ?? ''
      return of === type && [about, parent?.subscription_details?.subscription].includes(subscription)
    })
}

const timesOf = async (subscription: string, type: string): Promise<number[]> =>
  (await eventsAbout(subscription, type)).map(({ created }) => created)

describe('a renewal', () => {
  test('may be paid in two parts, each with a charge and a payment of its own', async () => {
    const { subscription, session } = await givenSubscription(world, { created: started })
    const due = session.amount_total!
    await world.simulator.control('renew', { subscription, first_part: 400 })
    const [renewal] = await invoicesOf(world, subscription)
    expect(renewal).toMatchObject({ status: 'paid', amount_paid: due })
    const { data } = await world.stripe.invoicePayments.list({ invoice: renewal!.id }, asVendor)
    expect(data.map((each) => [each.status, each.amount_paid, each.is_default])).toEqual([
      ['paid', 400, false],
      ['paid', due - 400, true],
    ])
    await expect(world.simulator.control('renew', { subscription, first_part: due })).rejects.toThrow(
      'to pay',
    )
  })

  test('has its invoice drafted at the period’s end, and paid about an hour later', async () => {
    const { subscription } = await givenSubscription(world, { created: started })
    await world.simulator.control('renew', { subscription })
    const [renewal] = await invoicesOf(world, subscription)
    expect(renewal).toMatchObject({
      created: firstEnd,
      status: 'paid',
      billing_reason: 'subscription_cycle',
      status_transitions: { finalized_at: firstEnd + hour, paid_at: firstEnd + hour },
      lines: { data: [{ period: { start: firstEnd, end: secondEnd } }] },
    })
    expect(await timesOf(subscription, 'customer.subscription.updated')).toEqual([firstEnd])
    expect(await timesOf(subscription, 'invoice.paid')).toEqual([started, firstEnd + hour])
    const [charge] = await chargesOf(world, renewal?.customer)
    expect(charge?.created).toBe(firstEnd + hour)
  })

  test('may be paid at a chosen time', async () => {
    const { subscription } = await givenSubscription(world, { created: started })
    await world.simulator.control('renew', { subscription, created: firstEnd + 3 * day })
    expect((await invoicesOf(world, subscription))[0]).toMatchObject({
      created: firstEnd,
      status_transitions: { paid_at: firstEnd + 3 * day },
    })
  })

  test('moves only the clock of its own customer, and later actions happen at that time', async () => {
    const { subscription } = await givenSubscription(world, { created: started })
    await world.simulator.control('renew', { subscription })
    const [renewal] = await invoicesOf(world, subscription)
    const [paid] = await chargesOf(world, renewal?.customer)
    const charge = paid?.id
    const refund = await world.simulator.control('refund', { charge, amount: 100 })
    const dispute = await world.simulator.control('dispute', { charge, kind: 'inquiry' })
    for (const time of [refund['created'], dispute['created']]) {
      expect(Number(time) - (firstEnd + hour)).toBeLessThan(minute)
    }
    const other = await givenSession(world)
    expect(other.created).toBeLessThan(started)
    await world.simulator.control('cancel', { subscription })
    const ended = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    expect(ended.ended_at! - (firstEnd + hour)).toBeLessThan(minute)
  })
})

test('failed attempts come three, five and seven days after the previous one, and a later payment reactivates', async () => {
  const { subscription } = await givenSubscription(world, { created: started })
  const status = async () => (await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)).status
  const fail = (how: object = {}) => world.simulator.control('fail-invoice', { subscription, ...how })
  expect(await fail()).toMatchObject({
    attempt_count: 1,
    status: 'open',
    billing_reason: 'subscription_cycle',
  })
  expect(await status()).toBe('past_due')
  // Stripe does not count a manual retry.
  expect(await fail({ manual: true })).toMatchObject({ attempt_count: 1 })
  for (const count of [2, 3]) expect(await fail()).toMatchObject({ attempt_count: count })
  expect(await fail()).toMatchObject({ attempt_count: 4, next_payment_attempt: null })
  const first = firstEnd + hour
  const times = [0, 0, 3, 8, 15]
  const failed = await timesOf(subscription, 'invoice.payment_failed')
  expect(failed.map((time) => Math.floor((time - first) / day))).toEqual(times)
  await world.simulator.control('renew', { subscription })
  const invoices = await invoicesOf(world, subscription)
  expect(invoices).toHaveLength(2)
  expect(invoices[0]).toMatchObject({
    status: 'paid',
    attempt_count: 5,
    amount_remaining: 0,
  })
  expect(await status()).toBe('active')
})
