import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SimulatedEvent } from './objects/event.ts'
import {
  eventsOf,
  givenPayment,
  givenSession,
  givenSubscription,
  shapeOf,
  startWorld,
  vendor,
  type World,
} from './test-support.ts'

const folder = new URL('../fixtures/events/', import.meta.url)
const emitted = new Map<string, SimulatedEvent>()

/** Runs the action, and keeps the first event of each type under the name of a fixture. */
async function tell(world: World, names: Record<string, string>, action: () => Promise<unknown>) {
  const before = world.receiver.received.length
  await action()
  await world.simulator.settled()
  const caused = world.receiver.received.slice(before).map(({ event }) => event)
  for (const [name, type] of Object.entries(names)) {
    const event = caused.find((each) => each.type === type)
    if (event !== undefined) emitted.set(name, event)
  }
}

const metadata = { licensing_session_id: 'chk_1', application_id: 'app_1' }
const withFee = { payment_intent_data: { application_fee_amount: 245, metadata }, metadata }

async function runPurchase(world: World): Promise<void> {
  const { simulator, stripe } = world
  let charge = ''
  await tell(
    world,
    { a1: 'checkout.session.completed', a2: 'application_fee.created' },
    async () => ({ charge } = await givenPayment(world, withFee)),
  )
  await tell(world, { a3: 'refund.created', a4: 'charge.refunded' }, () =>
    simulator.control('refund', { charge, amount: 1900 }),
  )
  await tell(world, { a5: 'refund.created', a6: 'charge.refunded' }, () =>
    simulator.control('refund', { charge }),
  )
  await tell(world, { a7: 'application_fee.refunded' }, async () => {
    const [fee] = (await stripe.applicationFees.list({ charge })).data
    await stripe.applicationFees.createRefund(fee?.id ?? '', { metadata: { credit: 'fcr_1' } })
  })
}

async function runDelayed(world: World): Promise<void> {
  const { simulator } = world
  const [b, c] = [await givenSession(world, { metadata }), await givenSession(world, { metadata })]
  const pay = (session: string, method: string) => () => simulator.control('pay', { session, method })
  await tell(world, { b1: 'checkout.session.completed' }, pay(b.id, 'delayed'))
  await tell(world, { b2: 'checkout.session.async_payment_succeeded' }, pay(b.id, 'card'))
  await tell(world, { b3: 'refund.created' }, () =>
    simulator.control('refund', { charge: b.id, status: 'pending' }),
  )
  await tell(world, { c1: 'checkout.session.completed' }, pay(c.id, 'delayed'))
  await tell(world, { c2: 'checkout.session.async_payment_failed' }, () =>
    simulator.control('fail', { session: c.id }),
  )
}

async function runSubscription(world: World): Promise<void> {
  const { simulator } = world
  let subscription = ''
  const control = (name: string, body: object) => () => simulator.control(name, { subscription, ...body })
  await tell(
    world,
    { s1: 'invoice.paid', s2: 'checkout.session.completed' },
    async () =>
      ({ subscription } = await givenSubscription(world, {
        metadata,
        subscription_data: { application_fee_percent: 5, metadata },
      })),
  )
  const updated = 'customer.subscription.updated'
  await tell(world, { s3: updated }, control('cancel', { when: 'period_end' }))
  await tell(world, { s4: updated }, control('cancel', { when: 'undo' }))
  await tell(world, { s5: 'invoice.payment_failed' }, control('fail-invoice', {}))
  // The fixture s6 is the event for the changed status, not the event for the changed period, which is sent with it.
  const pastDue = eventsOf(world.receiver, updated).find(
    ({ data }) => Object(data.previous_attributes).status === 'active',
  )
  if (pastDue !== undefined) emitted.set('s6', pastDue)
  await tell(world, { s7: 'invoice.payment_failed' }, control('fail-invoice', {}))
  await tell(world, { s8: 'invoice.payment_failed' }, control('fail-invoice', { attempt: 4 }))
  await tell(
    world,
    { s9: 'customer.subscription.deleted' },
    control('cancel', { when: 'now', reason: 'payment_failed' }),
  )
}

let world: World

beforeAll(async () => {
  world = await startWorld()
  await runPurchase(world)
  await runDelayed(world)
  await runSubscription(world)
  await tell(world, { x1: 'account.application.deauthorized' }, () =>
    world.simulator.control('deauthorize', { account: vendor }),
  )
})

afterAll(() => world[Symbol.asyncDispose]())

for (const file of readdirSync(folder)) {
  const name = file.split('-', 1)[0] ?? ''
  test(`the event of ${file} has the fixture's keys and types`, () => {
    const fixture = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as SimulatedEvent
    const event = emitted.get(name)
    expect(event?.type).toBe(fixture.type)
    // Our event a7 has a `request` because an API call causes it. The fixture was composed without one.
    const request = name === 'a7' ? event?.request : fixture.request
    expect(shapeOf(event)).toEqual(shapeOf({ ...fixture, request }))
    expect(Object.keys(event?.request ?? {})).toEqual(Object.keys(fixture.request))
    expect(event?.api_version).toBe(fixture.api_version)
    expect(event?.livemode).toBe(false)
    expect(event?.account).toBe(fixture.account === undefined ? undefined : vendor)
  })
}

test('every fixture has its event', () => {
  expect([...emitted.keys()].toSorted()).toEqual(
    readdirSync(folder)
      .map((file) => file.split('-', 1)[0] ?? '')
      .toSorted(),
  )
})
