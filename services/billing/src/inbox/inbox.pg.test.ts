import { transaction } from '@licensing/database/transaction'
import { eventually } from '@licensing/test-support/poll'
import { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { closeParkedAlerts } from '../alerts/open-alert-queries.ts'
import { listOwners, queues, lockDue } from '../purchases/queue-queries.ts'
import { timing } from '../purchases/timing.ts'
import { purgeHandledEvents } from './inbox-queries.ts'
import { eventsAt } from '../../test/charge-story.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenSold, handled, ledgerOf, licencesOf, openCheckout, pay, statusOf } from '../../test/shop.ts'
import { webhookSecret } from '../../test/surroundings.ts'
import type { Vendor } from '../../test/vendor.ts'
import { reconcile } from './missed-events.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

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
  return harness.billing.receiveProcessorEvent({
    processor: 'stripe',
    body: Buffer.from(payload),
    signature: signature ?? Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret }),
  })
}

async function stored(eventId: string) {
  return harness.sql<{ handled: boolean; body: Buffer | null }[]>`
    select handled_at is not null as handled, body from processor_events where event_id = ${eventId}`
}

describe('an event that arrives', () => {
  test('is stored once and handled, and its body is then deleted', async () => {
    const vendor = await harness.givenVendor()
    const event = eventOf(vendor)
    await Promise.all(Array.from({ length: 5 }, () => post(event)))
    await eventually(async () => expect(await stored(event.id)).toEqual([{ handled: true, body: null }]))
  })

  test('with a bad signature is refused and not stored', async () => {
    const vendor = await harness.givenVendor()
    const event = eventOf(vendor)
    await expect(post(event, 't=1,v1=00')).rejects.toMatchObject({ code: 'bad_request' })
    expect(await stored(event.id)).toEqual([])
  })

  test.each(['wrong_secret', 'tampered', 'reserialized', 'old', 'future', 'missing', 'malformed', 'v0_only'])(
    'of the processor with a signature that is %s is answered with 400, and has no effect',
    async (signature) => {
      const vendor = await harness.givenVendor()
      const session = await openCheckout(harness, vendor)
      const types = ['checkout.session.completed']
      await harness.simulator.control('delivery-rules', { action: 'forge', signature, types })
      harness.gate.answers.length = 0
      await pay(harness, session)
      await harness.simulator.settled()
      await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
      expect(harness.gate.answers).toContain(400)
      await handled(harness)
      expect(await statusOf(harness, vendor, session.id)).toBe('open')
    },
  )

  test.each([
    ['of the other mode', { livemode: true }],
    ['of a merchant that nobody connected', { account: 'acct_nobody' }],
    ['of the platform itself', { account: undefined }],
    ['of a type that is not used', { type: 'price.created' }],
  ])('%s is acknowledged and ignored', async (_, changes) => {
    const event = eventOf(await harness.givenVendor(), changes)
    await post(event)
    expect(await stored(event.id)).toEqual([])
  })

  test('of another processor is unknown', async () => {
    await expect(
      harness.billing.receiveProcessorEvent({ processor: 'paddle', body: Buffer.from('{}'), signature: '' }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of somebody else’s checkout on the same merchant has no effect', async () => {
    const vendor = await harness.givenVendor()
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
    expect(await licencesOf(harness, vendor)).toEqual([])
  })
})

const alerts = (vendor: Vendor) =>
  harness.events
    .raw(vendor.accountId)
    .flatMap(({ payload }) => (payload.case === 'vendorAlert' ? [payload.value.kind] : []))

/** A vendor's events as the operator's commands list them. */
const unhandled = async (vendor: Vendor) =>
  (await harness.operations.listProcessorEvents({})).events.filter(
    ({ merchant }) => merchant === `stripe:${vendor.connectedAccount}`,
  )

const refundIn = (id: string, change: object = {}) => ({
  type: 'refund.created',
  data: {
    object: {
      id,
      charge: 'ch_none',
      amount: 100,
      currency: 'usd',
      created: 1,
      status: 'succeeded',
      ...change,
    },
  },
})

describe('while licensing is unavailable', () => {
  test('sales are paid and their fees charged; licences are provisioned when it is available again, and no alert is sent', async () => {
    const vendor = await harness.givenVendor()
    const sessions = await Promise.all(
      Array.from({ length: 8 }, (_, at) => openCheckout(harness, vendor, { externalRef: `cust-${at}` })),
    )
    await harness.licensingProcess.stop()
    await Promise.all(sessions.map((session) => pay(harness, session)))
    await eventually(async () => expect(await ledgerOf(harness, vendor)).toHaveLength(8))
    await eventually(async () => {
      const [row] = await harness.sql<{ attempts: number }[]>`
        select min(attempts) as attempts from purchases where account_id = ${vendor.accountId}`
      expect(row!.attempts).toBeGreaterThan(1)
    })
    for (const session of sessions) expect(await statusOf(harness, vendor, session.id)).toBe('open')
    await harness.licensingProcess.start()
    await handled(harness)
    for (const session of sessions) expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
    expect(await licencesOf(harness, vendor)).toHaveLength(8)
    expect(alerts(vendor)).toEqual([])
  })
})

describe('an event that is not understood', () => {
  test.each<[string, object, string]>([
    ['of another shape', refundIn('re_shape', { amount: 'much' }), 'amount is not a whole number'],
    ['with an unknown value', refundIn('re_value', { status: 'rewound' }), 'status is "rewound"'],
    ['of another API version', { ...refundIn('re_version'), api_version: '2024-06-20' }, '2024-06-20'],
  ])('%s is parked, listed with its reason, and delays no other event', async (_, change, reason) => {
    const vendor = await harness.givenVendor()
    const event = eventOf(vendor, change)
    await post(event)
    await eventually(async () =>
      expect(await unhandled(vendor)).toMatchObject([
        { eventId: event.id, parked: true, reason: expect.stringContaining(reason) as string },
      ]),
    )
    await givenSold(harness, vendor)
    await harness.operations.discardProcessorEvent({ eventId: event.id })
    expect(await unhandled(vendor)).toEqual([])
    await expect(harness.operations.discardProcessorEvent({ eventId: event.id })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  const sale = { id: 'cs_1', payment_status: 'paid', metadata: { licensing_session_id: 'cs_none' } }
  test.each<[string, object]>([
    ['the event', { ...refundIn('re_event'), created: 253_402_300_800 }],
    ['a refund', refundIn('re_far', { created: 253_402_300_800 })],
    ['a withdrawal of access', { type: 'account.application.deauthorized', created: 253_402_300_800 }],
    ['a sale', { type: 'checkout.session.completed', created: 253_402_300_800, data: { object: sale } }],
  ])('because the time of %s is in the year 10000 is parked at once, with an alert', async (_, change) => {
    const vendor = await harness.givenVendor()
    const event = eventOf(vendor, change)
    await post(event)
    await eventually(async () =>
      expect(await unhandled(vendor)).toMatchObject([
        { parked: true, attempts: 1, reason: 'created is not a time between the years 1970 and 3000' },
      ]),
    )
    await eventually(() => expect(alerts(vendor)).toEqual(['processor_event_parked']))
    await harness.operations.discardProcessorEvent({ eventId: event.id })
  })

  test('because the database refuses a value is parked at once, with an alert, and stops no other', async () => {
    const vendor = await harness.givenVendor()
    await harness.sql`alter table facts add constraint refused check (body ->> 'refundRef' <> 're_refused')`
    const [refused, sound] = [refundIn('re_refused'), refundIn('re_sound')].map((each) =>
      eventOf(vendor, each),
    )
    try {
      await Promise.all([post(refused!), post(sound!)])
      await eventually(async () =>
        expect(await unhandled(vendor)).toMatchObject([{ eventId: refused!.id, parked: true, attempts: 1 }]),
      )
      await eventually(async () => expect(await stored(sound!.id)).toMatchObject([{ handled: true }]))
      await eventually(() => expect(alerts(vendor)).toEqual(['processor_event_parked']))
    } finally {
      await harness.sql`alter table facts drop constraint refused`
    }
    await harness.operations.discardProcessorEvent({ eventId: refused!.id })
  })

  test('raises one alert, however many such events there are, and another alert after they are gone', async () => {
    const vendor = await harness.givenVendor()
    const strange = () => eventOf(vendor, refundIn(`re_${made}`, { status: 'rewound' }))
    const parked = [strange(), strange(), strange()]
    for (const event of parked) await post(event)
    await eventually(async () => expect(await unhandled(vendor)).toHaveLength(3))
    await eventually(() => expect(alerts(vendor)).toEqual(['processor_event_parked']))
    for (const { id } of parked) await harness.operations.discardProcessorEvent({ eventId: id })
    await closeParkedAlerts(harness.sql)
    const next = strange()
    await post(next)
    await eventually(() => expect(alerts(vendor)).toHaveLength(2))
    await harness.operations.discardProcessorEvent({ eventId: next.id })
  })

  test('is read again when it is retried, and then has its effect', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    const strange = refundIn(`re_again_${made}`, { charge, amount: 4900, status: 'rewound' })
    const event = eventOf(vendor, strange)
    await post(event)
    await eventually(async () => expect(await unhandled(vendor)).toHaveLength(1))
    await harness.operations.retryProcessorEvent({ eventId: event.id })
    await eventually(async () =>
      expect(await unhandled(vendor)).toMatchObject([{ attempts: 2, parked: true }]),
    )
    // A release that knows the value would read this event.
    const known = JSON.stringify({ ...event, ...refundIn(strange.data.object.id, { charge, amount: 4900 }) })
    await harness.sql`update processor_events set body = ${Buffer.from(known)} where event_id = ${event.id}`
    await harness.operations.retryProcessorEvent({ eventId: event.id })
    await handled(harness)
    expect(await unhandled(vendor)).toEqual([])
    expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
  })
})

test('the settings of the webhook endpoint are described, and the endpoint is created with them', async () => {
  const needs = await harness.operations.describeProcessorWebhook({})
  expect(needs.apiVersion).toBe(Stripe.API_VERSION)
  expect(needs.eventTypes).toContain('charge.refunded')
  const url = 'https://licensing.example/v1/processors/stripe/events'
  const made = await harness.operations.createProcessorWebhook({ url })
  expect(made).toMatchObject({ id: expect.stringMatching(/^we_/), secret: expect.stringMatching(/^whsec_/) })
  // Nothing listens at its address, so the simulator would repeat all later events of this file.
  const deleted = await fetch(`${harness.simulator.url}/v1/webhook_endpoints/${made.id}`, {
    method: 'DELETE',
    headers: { authorization: 'Bearer sk_test_simulated' },
  })
  expect(await deleted.json()).toMatchObject({ deleted: true })
})

test('handled events and unlinked facts are deleted after a time, and others stay', async () => {
  const vendor = await harness.givenVendor()
  const event = eventOf(vendor)
  const strange = eventOf(vendor, refundIn('re_kept', { status: 'rewound' }))
  await post(event)
  await post(strange)
  await eventually(async () => expect(await stored(event.id)).toMatchObject([{ handled: true }]))
  await harness.sql`
    update processor_events set handled_at = now() - interval '46 days' where event_id = ${event.id}`
  await harness.sql`
    update processor_events set received_at = now() - interval '46 days' where event_id = ${strange.id}`
  expect(await purgeHandledEvents(harness.sql, timing.handledEventKept, 100)).toBeGreaterThan(0)
  expect(await stored(event.id)).toEqual([])
  expect(await stored(strange.id)).toMatchObject([{ handled: false }])
  await harness.operations.discardProcessorEvent({ eventId: strange.id })
})

test('an event is processed by one worker at a time, and a merchant’s backlog leaves others their share', async () => {
  const [busy, quiet] = ['stripe:acct_busy', 'stripe:acct_quiet']
  const insert = (merchant: string, at: number) =>
    harness.sql`
      insert into processor_events (processor, event_id, merchant, type, body, due_at)
      values ('stripe', ${`evt_${merchant}_${at}`}, ${merchant}, 'refund.created', '{}', now() + interval '1 hour')`
  for (let at = 0; at < 20; at += 1) await insert(busy, at)
  await insert(quiet, 0)
  try {
    await transaction(harness.sql, async (tx) => {
      await tx`update processor_events set due_at = now() where merchant in (${busy}, ${quiet})`
      expect(await listOwners(tx, queues.record, '', 10)).toEqual([busy, quiet])
      const mine = await lockDue(tx, queues.record, [busy, quiet], 3)
      expect(mine.map((event) => event.merchant)).toEqual([busy, busy, busy, quiet])
      await transaction(harness.sql, async (other) => {
        const theirs = await lockDue(other, queues.record, [busy, quiet], 3)
        expect(theirs).toEqual([])
      })
      throw new Error('undone')
    })
  } catch (error) {
    expect(error).toMatchObject({ message: 'undone' })
  } finally {
    await harness.sql`delete from processor_events where merchant in (${busy}, ${quiet})`
  }
})

test('events that never arrived are read from the processor’s own list, with the same result', async () => {
  const vendor = await harness.givenVendor()
  await harness.simulator.control('delivery-rules', { action: 'drop' })
  const session = await openCheckout(harness, vendor)
  await pay(harness, session)
  await harness.simulator.control('refund', { charge: session.url.split('/').at(-1) })
  await harness.simulator.settled()
  await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
  expect(await statusOf(harness, vendor, session.id)).toBe('open')
  const merchant = `stripe:${vendor.connectedAccount}`
  await reconcile(harness.deps, { merchant, reconciled_to: new Date() })
  await handled(harness)
  expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
  expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
  expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
  await reconcile(harness.deps, { merchant, reconciled_to: new Date() })
  await handled(harness)
  expect(await ledgerOf(harness, vendor)).toHaveLength(2)
})

test('listed events are put into the inbox oldest first, all of them or none', async () => {
  const vendor = await harness.givenVendor()
  const { connectedAccount: account } = vendor
  const merchant = `stripe:${account}`
  await harness.simulator.control('delivery-rules', { action: 'drop', account })
  const session = await openCheckout(harness, vendor)
  const charge = session.url.split('/').at(-1)
  await pay(harness, session)
  // More events than a page of the list has.
  for (let part = 0; part < 60; part += 1) await harness.simulator.control('refund', { charge, amount: 50 })
  const inboxed = async () => {
    const rows = await harness.sql<{ event_id: string; type: string }[]>`
      select event_id, type from processor_events where merchant = ${merchant} order by position`
    return rows.map((row) => row.event_id)
  }
  const { processor } = harness.deps
  const secondPageFails = {
    ...processor,
    async *listEvents(...about: Parameters<typeof processor.listEvents>) {
      for await (const page of processor.listEvents(...about)) {
        yield page
        throw new Error('the second page cannot be read')
      }
    },
  }
  const failing = reconcile(
    { ...harness.deps, processor: secondPageFails },
    { merchant, reconciled_to: new Date() },
  )
  await expect(failing).rejects.toThrow('second page')
  expect(await inboxed()).toEqual([])
  await reconcile(harness.deps, { merchant, reconciled_to: new Date() })
  const listed = (await eventsAt(harness, vendor)).filter(({ type }) =>
    harness.deps.processor.understands(type),
  )
  expect(listed.length).toBeGreaterThan(100)
  expect(await inboxed()).toEqual(listed.map((event) => event.id))
  await fetch(`${harness.simulator.url}/_sim/delivery-rules`, { method: 'DELETE' })
  await handled(harness)
})

test('a list of events that cannot be read does not count as compared, and is read as soon as it can be', async () => {
  const vendor = await harness.givenVendor()
  const merchant = `stripe:${vendor.connectedAccount}`
  const before = new Date(Date.now() - 3_600_000)
  await harness.sql`update reconciliations set reconciled_to = ${before} where merchant = ${merchant}`
  await harness.simulator.control('faults', {
    answer: '403',
    until_cleared: true,
    path: '/v1/events',
    account: vendor.connectedAccount,
  })
  const comparedTo = async () => {
    const [row] = await harness.sql<{ reconciled_to: Date }[]>`
      select reconciled_to from reconciliations where merchant = ${merchant}`
    return row!.reconciled_to
  }
  await expect(reconcile(harness.deps, { merchant, reconciled_to: before })).rejects.toThrow()
  expect(await comparedTo()).toEqual(before)
  await fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
  await reconcile(harness.deps, { merchant, reconciled_to: before })
  expect((await comparedTo()).getTime()).toBeGreaterThan(before.getTime())
})

test('a gap of more than 30 days, which the processor no longer lists, is reported', async () => {
  const vendor = await harness.givenVendor()
  const merchant = `stripe:${vendor.connectedAccount}`
  const day = 24 * 3_600_000
  await reconcile(harness.deps, { merchant, reconciled_to: new Date(Date.now() - 29 * day) })
  await reconcile(harness.deps, { merchant, reconciled_to: new Date(Date.now() - 31 * day) })
  await eventually(() => expect(alerts(vendor)).toEqual(['processor_events_missed']))
})
