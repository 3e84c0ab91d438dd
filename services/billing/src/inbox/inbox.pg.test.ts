import { eventually } from '@licensing/test-support/poll'
import { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import { webhookSecret } from '../testing/surroundings.ts'
import type { Harness } from '../testing/harness.ts'
import type { Vendor } from '../testing/vendor.ts'
import { givenSold, handled, ledgerOf, licencesOf, openCheckout, pay, statusOf } from '../testing/shop.ts'
import { claimEvents, insertEvent } from './inbox-queries.ts'
import { reconcile } from './reconcile.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

let made = 0
function eventOf(vendor: Pick<Vendor, 'connectedAccount'>, changes: object = {}) {
  made += 1
  return {
    id: `evt_made${made}`,
    object: 'event',
    account: vendor.connectedAccount,
    created: Math.floor(Date.now() / 1000),
    livemode: false,
    type: 'checkout.session.expired',
    data: { object: { id: `cs_made${made}`, metadata: { licensing_session_id: 'cs_none' } } },
    ...changes,
  }
}

function post(event: object, signature?: string) {
  const payload = JSON.stringify(event)
  return house.billing.receiveProcessorEvent({
    processor: 'stripe',
    body: Buffer.from(payload),
    signature: signature ?? Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret }),
  })
}

async function stored(eventId: string) {
  return house.sql<{ handled: boolean; body: Buffer | null }[]>`
    select handled_at is not null as handled, body from processor_events where event_id = ${eventId}`
}

describe('an event that arrives', () => {
  test('is stored once, handled, and its body then dropped', async () => {
    const vendor = await house.givenVendor()
    const event = eventOf(vendor)
    await Promise.all(Array.from({ length: 5 }, () => post(event)))
    await eventually(async () => expect(await stored(event.id)).toEqual([{ handled: true, body: null }]))
  })

  test('with a bad signature is refused and not stored', async () => {
    const vendor = await house.givenVendor()
    const event = eventOf(vendor)
    await expect(post(event, 't=1,v1=00')).rejects.toMatchObject({ code: 'bad_request' })
    expect(await stored(event.id)).toEqual([])
  })

  test.each(['wrong_secret', 'tampered', 'reserialized', 'old', 'future', 'missing', 'malformed', 'v0_only'])(
    'of the processor with a signature that is %s is answered with 400, and has no effect',
    async (signature) => {
      const vendor = await house.givenVendor()
      const session = await openCheckout(house, vendor)
      const types = ['checkout.session.completed']
      await house.simulator.control('delivery-rules', { action: 'forge', signature, types })
      house.gate.answers.length = 0
      await pay(house, session)
      await house.simulator.settled()
      await fetch(`${house.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
      expect(house.gate.answers).toContain(400)
      await handled(house)
      expect(await statusOf(house, vendor, session.id)).toBe('open')
    },
  )

  test.each([
    ['of the other mode', { livemode: true }],
    ['of a merchant that nobody connected', { account: 'acct_nobody' }],
    ['of the platform itself', { account: undefined }],
    ['of a type that means nothing here', { type: 'price.created' }],
  ])('%s is acknowledged and let go', async (_, changes) => {
    const event = eventOf(await house.givenVendor(), changes)
    await post(event)
    expect(await stored(event.id)).toEqual([])
  })

  test('of another processor is unknown', async () => {
    await expect(
      house.billing.receiveProcessorEvent({ processor: 'paddle', body: Buffer.from('{}'), signature: '' }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of somebody else’s checkout on the same merchant has no effect', async () => {
    const vendor = await house.givenVendor()
    const object = {
      id: 'cs_theirs',
      payment_status: 'paid',
      amount_total: 100,
      currency: 'usd',
      metadata: { licensing_session_id: 'cs_none' },
    }
    const event = eventOf(vendor, { type: 'checkout.session.completed', data: { object } })
    await post(event)
    await eventually(async () => expect(await stored(event.id)).toMatchObject([{ handled: true }]))
    expect(await licencesOf(house, vendor)).toEqual([])
  })
})

describe('an event that cannot be handled', () => {
  test('is kept and tried again until the licensing service is back', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    await house.licensingProcess.stop()
    await pay(house, session)
    await eventually(async () => {
      const [row] = await house.sql<{ attempts: number }[]>`
        select max(attempts) as attempts from processor_events where handled_at is null`
      expect(row!.attempts).toBeGreaterThan(1)
    })
    expect(await statusOf(house, vendor, session.id)).toBe('open')
    // What needs no other service has been done.
    expect(await ledgerOf(house, vendor)).toEqual(['charge 245'])
    await house.licensingProcess.start()
    await handled(house)
    expect(await statusOf(house, vendor, session.id)).toBe('provisioned')
    expect(await licencesOf(house, vendor)).toHaveLength(1)
  })

  test('does not hold up the others, is shown as parked after many tries, and people are told once', async () => {
    const vendor = await house.givenVendor()
    const type = 'refund.created'
    // No refund has such an amount.
    const poison = eventOf(vendor, { type, data: { object: { id: 're_1', charge: 'ch_1', amount: 'much' } } })
    await post(poison)
    await house.sql`update processor_events set attempts = 50 where event_id = ${poison.id}`
    const alerts = () =>
      house.events.raw(vendor.accountId).filter(({ payload }) => payload.case === 'vendorAlert')
    await eventually(() => expect(alerts()).toHaveLength(1))
    await givenSold(house, vendor)
    const [row] = await house.sql<{ parked: boolean; last_error: string }[]>`
      select parked, last_error from processor_events where event_id = ${poison.id}`
    expect(row).toEqual({ parked: true, last_error: expect.stringContaining('SyntaxError') })
    await house.sql`update processor_events set next_at = now() where event_id = ${poison.id}`
    await house.sql`delete from processor_events where event_id = ${poison.id}`
    expect(alerts()).toHaveLength(1)
  })
})

test('an event is with one worker at a time', async () => {
  const vendor = await house.givenVendor()
  const ids = Array.from({ length: 20 }, (_, at) => `evt_lease${at}`)
  await house.sql.begin(async (tx) => {
    for (const eventId of ids) {
      const type = 'refund.created'
      const merchant = `stripe:${vendor.connectedAccount}`
      await insertEvent(tx, { processor: 'stripe', eventId, merchant, type, body: Buffer.from('{}') })
    }
    const claims = await Promise.all([claimEvents(tx, 20, 1000), claimEvents(tx, 20, 1000)])
    expect(
      claims
        .flat()
        .map((event) => event.event_id)
        .sort(),
    ).toEqual(ids.sort())
    await tx`delete from processor_events where event_id like 'evt_lease%'`
  })
})

test('what never arrived is taken in from the processor’s own list, with the same result', async () => {
  const vendor = await house.givenVendor()
  await house.simulator.control('delivery-rules', { action: 'drop' })
  const session = await openCheckout(house, vendor)
  await pay(house, session)
  await house.simulator.control('refund', { charge: session.url.split('/').at(-1) })
  await house.simulator.settled()
  await fetch(`${house.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
  expect(await statusOf(house, vendor, session.id)).toBe('open')
  const merchant = `stripe:${vendor.connectedAccount}`
  await reconcile(house.deps, { merchant, reconciled_to: new Date() })
  await handled(house)
  expect(await statusOf(house, vendor, session.id)).toBe('provisioned')
  expect(await licencesOf(house, vendor)).toMatchObject([{ status: 'revoked' }])
  expect(await ledgerOf(house, vendor)).toEqual(['charge 245', 'credit -245'])
  await reconcile(house.deps, { merchant, reconciled_to: new Date() })
  await handled(house)
  expect(await ledgerOf(house, vendor)).toHaveLength(2)
})
