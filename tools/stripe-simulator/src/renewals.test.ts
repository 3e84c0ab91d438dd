import type { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SimulatedEvent } from './objects/event.ts'
import { asVendor, givenSession, givenSubscription, idOf, startWorld } from './test-support.ts'
import type { World } from './test-support.ts'

const hour = 3600
const day = 24 * hour
const started = Date.UTC(2027, 0, 10, 9) / 1000
const firstEnd = Date.UTC(2027, 1, 10, 9) / 1000
const secondEnd = Date.UTC(2027, 2, 10, 9) / 1000

let world: World
beforeAll(async () => {
  world = await startWorld({ enabledEvents: ['*'] })
  await world.simulator.control('clock', { now: started })
})
afterAll(() => world[Symbol.asyncDispose]())

const invoicesOf = async (subscription: string): Promise<Stripe.Invoice[]> =>
  (await world.stripe.invoices.list({ subscription }, asVendor)).data

async function eventsAbout(subscription: string, type: string): Promise<SimulatedEvent[]> {
  const { data } = (await (await fetch(`${world.simulator.url}/_sim/events?type=${type}`)).json()) as {
    data: { event: SimulatedEvent }[]
  }
  return data
    .map(({ event }) => event)
    .filter(({ data: { object } }) => {
      const { id, parent } = object as Partial<Stripe.Invoice>
      return id === subscription || parent?.subscription_details?.subscription === subscription
    })
}

const timesOf = async (subscription: string, type: string): Promise<number[]> =>
  (await eventsAbout(subscription, type)).map(({ created }) => created)

describe('a renewal', () => {
  test('has its invoice drafted at the period’s end and paid about an hour later', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription })
    const [renewal] = await invoicesOf(subscription)
    expect(renewal).toMatchObject({
      created: firstEnd,
      status: 'paid',
      billing_reason: 'subscription_cycle',
      status_transitions: { finalized_at: firstEnd + hour, paid_at: firstEnd + hour },
      lines: { data: [{ period: { start: firstEnd, end: secondEnd } }] },
    })
    expect(await timesOf(subscription, 'invoice.created')).toEqual([started, firstEnd])
    expect(await timesOf(subscription, 'customer.subscription.updated')).toEqual([firstEnd])
    expect(await timesOf(subscription, 'invoice.finalized')).toEqual([started, firstEnd + hour])
    expect(await timesOf(subscription, 'invoice.paid')).toEqual([started, firstEnd + hour])
    const { data } = await world.stripe.charges.list({ customer: idOf(renewal?.customer) }, asVendor)
    expect(data[0]?.created).toBe(firstEnd + hour)
  })

  test('is a draft without a number until it is finalized', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription })
    const [, event] = await eventsAbout(subscription, 'invoice.created')
    expect(event?.data.object).toMatchObject({
      status: 'draft',
      number: null,
      attempted: false,
      automatically_finalizes_at: firstEnd + hour,
      status_transitions: { finalized_at: null, paid_at: null },
    })
  })

  test('may be paid days late, as if the webhook endpoint did not answer', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription, paid_after_seconds: 3 * day })
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      created: firstEnd,
      status_transitions: { paid_at: firstEnd + 3 * day },
    })
  })

  test('moves only the clock of its own customer, and later actions happen at that time', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription })
    const [renewal] = await invoicesOf(subscription)
    const charges = await world.stripe.charges.list({ customer: idOf(renewal?.customer) }, asVendor)
    const charge = charges.data[0]?.id ?? ''
    const refund = await world.stripe.refunds.create({ charge, amount: 100 }, asVendor)
    const dispute = await world.simulator.control('dispute', { charge, kind: 'inquiry' })
    expect([refund.created, dispute['created']]).toEqual([firstEnd + hour, firstEnd + hour])
    const other = await givenSession(world)
    expect(other.created).toBe(started)
    await world.simulator.control('cancel', { subscription })
    const ended = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    expect(ended.ended_at).toBe(firstEnd + hour)
  })

  test('happens at a chosen time', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription, created: firstEnd + 5 * hour })
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      created: firstEnd,
      status_transitions: { paid_at: firstEnd + 5 * hour },
    })
  })

  test('ends the subscription if it was cancelled at the period’s end', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('cancel', { subscription, when: 'period_end' })
    await world.simulator.control('renew', { subscription })
    const ended = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    expect(ended).toMatchObject({ status: 'canceled', ended_at: firstEnd, cancel_at: firstEnd })
  })
})

describe('failed attempts', () => {
  test('come three, five and seven days after the previous attempt, and the fourth is the last', async () => {
    const { subscription } = await givenSubscription(world)
    for (let attempt = 0; attempt < 4; attempt += 1) {
      await world.simulator.control('fail-invoice', { subscription })
    }
    const first = firstEnd + hour
    const times = [first, first + 3 * day, first + 8 * day, first + 15 * day]
    expect(await timesOf(subscription, 'invoice.payment_failed')).toEqual(times)
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      status: 'open',
      attempt_count: 4,
      next_payment_attempt: null,
    })
    await world.simulator.control('renew', { subscription })
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      status: 'paid',
      status_transitions: { paid_at: first + 15 * day },
    })
  })
})

describe('a clock that moves', () => {
  const moveOn = (subscription: string, how: object) =>
    world.simulator.control('clock', { subscription, ...how })

  test('drafts the invoice at the period’s end, and pays it when its hour is over', async () => {
    const { subscription } = await givenSubscription(world)
    await moveOn(subscription, { now: firstEnd - 1 })
    expect(await invoicesOf(subscription)).toHaveLength(1)
    await moveOn(subscription, { now: firstEnd + 1 })
    expect((await invoicesOf(subscription))[0]).toMatchObject({ status: 'draft', created: firstEnd })
    await moveOn(subscription, { advance_seconds: hour })
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      status: 'paid',
      status_transitions: { paid_at: firstEnd + hour },
    })
    await expect(moveOn(subscription, { now: started })).rejects.toThrow('does not go back')
  })

  test('catches up on every period, each at its own time', async () => {
    const { subscription } = await givenSubscription(world)
    await moveOn(subscription, { now: Date.UTC(2027, 4, 1) / 1000 })
    const paid = (await timesOf(subscription, 'invoice.paid')).map((at) => new Date(at * 1000).toISOString())
    expect(paid).toEqual([
      '2027-01-10T09:00:00.000Z',
      '2027-02-10T10:00:00.000Z',
      '2027-03-10T10:00:00.000Z',
      '2027-04-10T10:00:00.000Z',
    ])
  })

  test('retries a declined payment, and after the last attempt does what the vendor has set', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('card', { subscription, declines: true, after_final: 'cancel' })
    await moveOn(subscription, { now: firstEnd + 9 * day })
    expect(await timesOf(subscription, 'invoice.payment_failed')).toHaveLength(3)
    await moveOn(subscription, { advance_seconds: 10 * day })
    expect(await timesOf(subscription, 'invoice.payment_failed')).toHaveLength(4)
    const ended = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    expect(ended).toMatchObject({ status: 'canceled', ended_at: firstEnd + hour + 15 * day })
  })

  test('collects at the next retry when the card works again', async () => {
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('card', { subscription, declines: true })
    await moveOn(subscription, { now: firstEnd + 2 * day })
    await world.simulator.control('card', { subscription, declines: false })
    await moveOn(subscription, { advance_seconds: 2 * day })
    expect((await invoicesOf(subscription))[0]).toMatchObject({
      status: 'paid',
      attempt_count: 2,
      status_transitions: { paid_at: firstEnd + hour + 3 * day },
    })
    const found = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
    expect(found.status).toBe('active')
  })

  test('ends a subscription that was cancelled at period end, and renews no other customer’s', async () => {
    const [booked, other] = [await givenSubscription(world), await givenSubscription(world)]
    await world.simulator.control('cancel', { subscription: booked.subscription, when: 'period_end' })
    await moveOn(booked.subscription, { now: secondEnd })
    const ended = await world.stripe.subscriptions.retrieve(booked.subscription, {}, asVendor)
    expect(ended).toMatchObject({ status: 'canceled', ended_at: firstEnd })
    expect(await invoicesOf(other.subscription)).toHaveLength(1)
  })
})

test('a restart keeps a customer’s time', async () => {
  const { subscription } = await givenSubscription(world)
  await world.simulator.control('renew', { subscription })
  const { customers } = await world.simulator.control<{ customers: Record<string, number> }>('clock', {})
  const found = await world.stripe.subscriptions.retrieve(subscription, {}, asVendor)
  expect(customers[idOf(found.customer)]).toBe(firstEnd + hour - started)
})
