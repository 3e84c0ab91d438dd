import { Stripe } from 'stripe'
import { describe, expect, test } from 'vitest'
import type { SimulatedEvent } from './objects/event.ts'
import {
  asVendor,
  eventsOf,
  givenPayment,
  givenPrice,
  givenSession,
  givenSubscription,
  idOf,
  startReceiver,
  startWorld,
  vendor,
} from './test-support.ts'
import type { World } from './test-support.ts'

const withFee = { payment_intent_data: { application_fee_amount: 245 } }

async function givenWorld(): Promise<World> {
  return startWorld({ enabledEvents: ['*'] })
}

async function sent(world: World, type: string): Promise<SimulatedEvent[]> {
  await world.simulator.settled()
  return eventsOf(world.receiver, type)
}

describe('an asynchronous capture', () => {
  test('has neither balance transaction nor application fee until charge.updated, an hour later', async () => {
    await using world = await givenWorld()
    await world.simulator.control('clock', { now: 1_793_700_000 })
    await world.simulator.control('settings', { account: vendor, capture: 'asynchronous' })
    const { charge } = await givenPayment(world, withFee)
    const [succeeded] = await sent(world, 'charge.succeeded')
    expect(succeeded?.data.object).toMatchObject({
      paid: true,
      captured: true,
      amount_captured: 4900,
      balance_transaction: null,
      application_fee: null,
      application_fee_amount: 245,
    })
    expect((await world.stripe.applicationFees.list({ charge })).data).toEqual([])

    await world.simulator.control('clock', { advance_seconds: 3599 })
    expect(await sent(world, 'charge.updated')).toEqual([])
    await world.simulator.control('clock', { advance_seconds: 1 })
    const [updated] = await sent(world, 'charge.updated')
    const [fee] = (await world.stripe.applicationFees.list({ charge })).data
    expect(updated).toMatchObject({
      created: 1_793_703_600,
      data: {
        object: { id: charge, application_fee: fee?.id, balance_transaction: expect.stringMatching(/^txn_/) },
        previous_attributes: { balance_transaction: null },
      },
    })
    expect(fee).toMatchObject({ amount: 245, created: 1_793_703_600 })
  })

  test('ends at once on demand, and by itself in real time', async () => {
    await using world = await givenWorld()
    await world.simulator.control('settings', { capture: 'asynchronous', capture_seconds: 3 })
    const [now, later] = [await givenPayment(world, withFee), await givenPayment(world, withFee)]
    await world.simulator.control('capture', { charge: now.charge })
    await expect(world.simulator.control('capture', { charge: now.charge })).rejects.toThrow('no capture')
    await expect
      .poll(async () => (await world.stripe.charges.retrieve(later.charge, {}, asVendor)).application_fee, {
        timeout: 30_000,
      })
      .toMatch(/^fee_/)
    expect(await sent(world, 'charge.updated')).toHaveLength(2)
  })
})

describe('a dispute', () => {
  const typesAbout = (world: World, id: string) =>
    world.receiver.received
      .map(({ event }) => event)
      .filter(({ data }) => Object(data.object).id === id)
      .map(({ type }) => type.replace('charge.dispute.', ''))
      .toSorted()

  test('that is won gives the money back', async () => {
    await using world = await givenWorld()
    const { charge } = await givenPayment(world)
    const { id } = await world.simulator.control<{ id: string }>('dispute', { charge })
    await world.simulator.control('close-dispute', { dispute: id, outcome: 'won' })
    const [reinstated] = await sent(world, 'charge.dispute.funds_reinstated')
    expect(typesAbout(world, id)).toEqual(['closed', 'created', 'funds_reinstated', 'funds_withdrawn'])
    expect(reinstated?.data.object).toMatchObject({
      status: 'won',
      balance_transactions: [
        { amount: -4900, net: -6400 },
        { amount: 4900, net: 6400 },
      ],
    })
  })

  test('that is lost keeps it, and an inquiry never moves it', async () => {
    await using world = await givenWorld()
    const [lost, inquiry] = [await givenPayment(world), await givenPayment(world)]
    const one = await world.simulator.control<{ id: string }>('dispute', { charge: lost.charge })
    await world.simulator.control('close-dispute', { dispute: one.id, outcome: 'lost' })
    const two = await world.simulator.control<{ id: string }>('dispute', {
      charge: inquiry.charge,
      kind: 'inquiry',
    })
    await world.simulator.control('close-dispute', { dispute: two.id, outcome: 'warning_closed' })
    await world.simulator.settled()
    expect(typesAbout(world, one.id)).toEqual(['closed', 'created', 'funds_withdrawn'])
    expect(typesAbout(world, two.id)).toEqual(['closed', 'created'])
  })
})

describe('an amount', () => {
  test.each([
    ['usd', 49, 50],
    ['jpy', 49, 50],
    ['gbp', 29, 30],
    ['czk', 1499, 1500],
  ])('in %s of %i is too small, of %i is enough', async (currency, tooSmall, enough) => {
    await using world = await startWorld()
    const small = await givenPrice(world.simulator, { currency, amount: tooSmall })
    const refusal = givenSession(world, { price: small })
    await expect(refusal).rejects.toMatchObject({ statusCode: 400, code: 'amount_too_small' })
    const large = await givenPrice(world.simulator, { currency, amount: enough })
    expect(await givenSession(world, { price: large })).toMatchObject({ amount_total: enough })
  })

  test('of nothing is a free checkout', async () => {
    await using world = await startWorld()
    const price = await givenPrice(world.simulator, { amount: 0 })
    expect(await givenSession(world, { price })).toMatchObject({ amount_total: 0 })
  })
})

describe('a permission that is missing', () => {
  test('is refused on its path and account at every call until it is granted', async () => {
    await using world = await startWorld()
    const { charge } = await givenPayment(world)
    await world.simulator.control('faults', {
      answer: '403',
      until_cleared: true,
      path: '/v1/charges',
      account: vendor,
    })
    for (let times = 0; times < 3; times += 1) {
      const refusal = world.stripe.charges.retrieve(charge, {}, asVendor)
      await expect(refusal).rejects.toBeInstanceOf(Stripe.errors.StripePermissionError)
      await expect(refusal).rejects.toMatchObject({
        statusCode: 403,
        rawType: 'invalid_request_error',
        code: undefined,
        message: `The provided key 'sk_test_*********' does not have the required permissions for this endpoint on account '${vendor}'. Having the 'rak_charge_read' permission would allow this request to continue.`,
      })
    }
    await world.stripe.refunds.list({ charge }, asVendor)
    await fetch(`${world.simulator.url}/_sim/faults`, { method: 'DELETE' })
    await world.stripe.charges.retrieve(charge, {}, asVendor)
  })
})

test('a call for a locked object gets 429 with the code lock_timeout', async () => {
  await using world = await startWorld()
  const { charge } = await givenPayment(world)
  await world.simulator.control('faults', { answer: 'lock_timeout', path: '/v1/refunds', method: 'POST' })
  await expect(world.stripe.refunds.create({ charge }, asVendor)).rejects.toMatchObject({
    statusCode: 429,
    code: 'lock_timeout',
  })
  expect(await world.stripe.refunds.create({ charge }, asVendor)).toMatchObject({ status: 'succeeded' })
})

describe('two events report the same change', () => {
  test('for a purchase, a renewal and a failed refund', async () => {
    await using world = await givenWorld()
    const { charge } = await givenPayment(world)
    const { subscription } = await givenSubscription(world)
    await world.simulator.control('renew', { subscription })
    const { id } = await world.simulator.control<{ id: string }>('refund', { charge })
    await world.simulator.control('refund-status', { refund: id, status: 'failed' })
    await world.simulator.settled()
    const count = (type: string) => eventsOf(world.receiver, type).length
    expect([count('charge.succeeded'), count('payment_intent.succeeded')]).toEqual([3, 3])
    expect([
      count('invoice.paid'),
      count('invoice.payment_succeeded'),
      count('invoice_payment.paid'),
    ]).toEqual([2, 2, 2])
    expect([count('refund.updated'), count('charge.refund.updated')]).toEqual([1, 1])
  })
})

describe('settings of an account', () => {
  test('set the API version of its events, which have the members of that version', async () => {
    await using world = await givenWorld()
    await world.simulator.control('settings', { account: vendor, api_version: '2024-06-20' })
    const { subscription, session } = await givenSubscription(world)
    const [paid] = await sent(world, 'invoice.paid')
    expect(paid).toMatchObject({
      api_version: '2024-06-20',
      data: { object: { id: session.invoice, subscription, paid: true } },
    })
    expect(paid?.data.object).not.toHaveProperty('parent')
    const [created] = await sent(world, 'customer.subscription.created')
    expect(Object(created?.data.object).current_period_end).toBeGreaterThan(paid?.created ?? Infinity)
    const answer = await world.stripe.invoices.retrieve(idOf(session.invoice), {}, asVendor)
    expect(answer.parent?.subscription_details?.subscription).toBe(subscription)
  })

  test('set livemode in all objects and events', async () => {
    await using world = await givenWorld()
    await world.simulator.control('settings', { account: vendor, livemode: true })
    const { charge } = await givenPayment(world, withFee)
    const [completed] = await sent(world, 'checkout.session.completed')
    expect(completed).toMatchObject({ livemode: true, data: { object: { livemode: true } } })
    expect(await world.stripe.charges.retrieve(charge, {}, asVendor)).toMatchObject({ livemode: true })
    const other = { stripeAccount: 'acct_simOther' }
    const price_data = { currency: 'usd', unit_amount: 900, product_data: { name: 'Pro' } }
    const session = await world.stripe.checkout.sessions.create(
      { mode: 'payment', success_url: 'http://127.0.0.1/', line_items: [{ price_data, quantity: 1 }] },
      other,
    )
    expect(session.livemode).toBe(false)
  })
})

test('refunds and disputes of a charge can fill more than a page of ten', async () => {
  await using world = await startWorld()
  const { charge } = await givenPayment(world)
  for (let count = 0; count < 12; count += 1) {
    await world.stripe.refunds.create({ charge, amount: 10 }, asVendor)
    const dispute = await world.simulator.control('dispute', { charge, kind: 'inquiry' })
    await world.simulator.control('close-dispute', { dispute: dispute['id'], outcome: 'warning_closed' })
  }
  const { refunds, disputes } = world.stripe
  for (const first of [await refunds.list({ charge }, asVendor), await disputes.list({ charge }, asVendor)]) {
    expect(first).toMatchObject({ has_more: true })
    expect(first.data).toHaveLength(10)
  }
  const all: string[] = []
  for await (const refund of refunds.list({ charge }, asVendor)) all.push(refund.id)
  for await (const dispute of disputes.list({ charge }, asVendor)) all.push(dispute.id)
  expect(new Set(all).size).toBe(24)
})

describe('a webhook endpoint', () => {
  test('that is created gets its events with its own secret and in its own version', async () => {
    await using world = await startWorld()
    await using own = await startReceiver()
    const { webhookEndpoints } = world.stripe
    const endpoint = await webhookEndpoints.create({
      url: own.url,
      enabled_events: ['checkout.session.completed', 'application_fee.created'],
      connect: true,
      api_version: '2024-06-20',
    })
    await givenPayment(world, withFee)
    await world.simulator.settled()
    const [got, ...more] = own.received
    expect(more).toEqual([])
    const event = Stripe.webhooks.constructEvent(got?.body ?? '', got?.signature ?? '', endpoint.secret ?? '')
    expect(event).toMatchObject({ type: 'checkout.session.completed', api_version: '2024-06-20' })
    const [same] = eventsOf(world.receiver, 'checkout.session.completed')
    expect(same).toMatchObject({ id: event.id, api_version: '2026-10-28.endive' })
  })

  test('shows its secret once, can be changed, disabled and deleted', async () => {
    await using world = await startWorld()
    await using own = await startReceiver()
    const { webhookEndpoints } = world.stripe
    const { id, secret } = await webhookEndpoints.create({ url: own.url, enabled_events: ['*'] })
    expect(secret).toMatch(/^whsec_/)
    expect(await webhookEndpoints.retrieve(id)).not.toHaveProperty('secret')
    expect((await webhookEndpoints.list()).data.map((each) => each.id)).toEqual([id])
    const disabled = await webhookEndpoints.update(id, { disabled: true, enabled_events: ['invoice.paid'] })
    expect(disabled).toMatchObject({ status: 'disabled', enabled_events: ['invoice.paid'] })
    await givenSubscription(world)
    await world.simulator.settled()
    expect(own.received).toEqual([])
    expect(await webhookEndpoints.del(id)).toMatchObject({ id, deleted: true })
    await expect(webhookEndpoints.retrieve(id)).rejects.toMatchObject({ statusCode: 404 })
  })
})
