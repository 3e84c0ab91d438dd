import { transaction } from '@licensing/database/transaction'
import { eventually } from '@licensing/test-support/poll'
import { Stripe } from 'stripe'
import { describe, expect, test } from 'vitest'
import { closeDeadLetterAlerts } from '../alerts/open-alert-queries.ts'
import { listOwners, queues, lockDue } from '../queues/queue-queries.ts'
import { timing } from '../timing.ts'
import { purgeHandledEvents } from './inbox-queries.ts'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import {
  askProcessor,
  checkoutRefOf,
  dropEvents,
  givenSold,
  handled,
  ledgerOf,
  licencesOf,
  openCheckout,
  openCheckouts,
  pay,
  statusOf,
} from '../../test/shop.ts'
import { alertsOf, monthly } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'
import { reconcile } from './missed-events.ts'

const harness = await sharedHarness()

let made = 0
function anEvent(changes: object = {}) {
  made += 1
  return {
    id: `evt_made${made}`,
    object: 'event',
    created: Math.floor(Date.now() / 1000),
    livemode: false,
    type: 'checkout.session.expired',
    data: { object: { id: `cs_made${made}`, metadata: { licensing_session_id: 'cs_none' } } },
    ...changes,
  }
}

const aRefund = (id: string, change: object = {}) => {
  const refund = { id, charge: 'ch_none', amount: 100, currency: 'usd', created: 1, status: 'succeeded' }
  return { type: 'refund.created', data: { object: { ...refund, ...change } } }
}

const stored = (eventId: string) =>
  harness.sql<{ handled: boolean; body: Buffer | null }[]>`
    select handled_at is not null as handled, body from processor_events where event_id = ${eventId}`

/** A vendor's events as the operator's commands list them. */
const unhandled = async (vendor: Vendor) =>
  (await harness.operations.listProcessorEvents({})).events.filter(
    ({ merchant }) => merchant === `stripe:${vendor.connectedAccount}`,
  )

const discard = (eventId: string) => harness.operations.discardProcessorEvent({ eventId })

describe('an event that arrives', () => {
  test('is stored once and handled, and its body is then deleted', async () => {
    const vendor = await harness.givenVendor()
    const event = anEvent()
    await Promise.all(Array.from({ length: 5 }, () => deliver(harness, vendor, event)))
    await handled(harness, vendor)
    expect(await stored(event.id)).toEqual([{ handled: true, body: null }])
  })

  test('with a bad signature is refused and not stored', async () => {
    const { connectedAccount: account } = await harness.givenVendor()
    const event = { ...anEvent(), account }
    const body = Buffer.from(JSON.stringify(event))
    const receive = harness.billing.receiveProcessorEvent({
      processor: 'stripe',
      body,
      signature: 't=1,v1=00',
    })
    await expect(receive).rejects.toMatchObject({ code: 'bad_request' })
    expect(await stored(event.id)).toEqual([])
  })

  test.each<[string, object, { connectedAccount: string | undefined }?]>([
    ['of the other mode', { livemode: true }],
    ['of a merchant that nobody connected', {}, { connectedAccount: 'acct_nobody' }],
    ['of the platform itself', {}, { connectedAccount: undefined }],
    ['of a type that is not used', { type: 'price.created' }],
  ])('%s is acknowledged and ignored', async (_, changes, of) => {
    const event = anEvent(changes)
    await deliver(harness, { ...(await harness.givenVendor()), ...of }, event)
    expect(await stored(event.id)).toEqual([])
  })

  test('of another processor is unknown', async () => {
    const other = { processor: 'paddle', body: Buffer.from('{}'), signature: '' }
    await expect(harness.billing.receiveProcessorEvent(other)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of somebody else’s checkout on the same merchant has no effect', async () => {
    const vendor = await harness.givenVendor()
    const paid = { id: 'cs_theirs', payment_status: 'paid', amount_total: 100, currency: 'usd' }
    const object = { ...paid, metadata: { licensing_session_id: 'cs_none' } }
    const event = anEvent({ type: 'checkout.session.completed', data: { object } })
    await deliver(harness, vendor, event)
    await handled(harness, vendor)
    expect(await stored(event.id)).toMatchObject([{ handled: true }])
    expect(await licencesOf(harness, vendor)).toEqual([])
  })
})

test('while licensing is unavailable, sales are paid and their fees charged; licences are provisioned when it is available again, and no alert is sent', async () => {
  const vendor = await harness.givenVendor()
  const sessions = await openCheckouts(harness, vendor, 8)
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
  await handled(harness, vendor)
  for (const session of sessions) expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
  expect(await licencesOf(harness, vendor)).toHaveLength(8)
  expect(alertsOf(harness, vendor)).toEqual([])
})

describe('an event that is not understood', () => {
  const year10000 = { created: 253_402_300_800 }
  const notATime = 'created is not a time between the years 1970 and 3000'
  const withdrawn = { type: 'account.application.deauthorized', ...year10000 }
  test.each<[string, object, string]>([
    ['it has another shape', aRefund('re_shape', { amount: 'much' }), 'amount is not a whole number'],
    ['it has an unknown value', aRefund('re_value', { status: 'rewound' }), 'status is "rewound"'],
    ['its API version is another', { ...aRefund('re_1'), api_version: '2024-06-20' }, '2024-06-20'],
    ['its time is in the year 10000', { ...aRefund('re_event'), ...year10000 }, notATime],
    ['a time in it is in the year 10000', aRefund('re_far', year10000), notATime],
    ['the time of a withdrawal of access is in the year 10000', withdrawn, notATime],
  ])(
    'because %s is dead-lettered at once with one alert, listed with its reason, and delays no other event',
    async (_, change, reason) => {
      const vendor = await harness.givenVendor()
      const event = anEvent(change)
      await deliver(harness, vendor, event)
      await givenSold(harness, vendor)
      await handled(harness, vendor)
      expect(await unhandled(vendor)).toMatchObject([
        {
          eventId: event.id,
          deadLettered: true,
          attempts: 1,
          reason: expect.stringContaining(reason) as string,
        },
      ])
      expect(alertsOf(harness, vendor)).toEqual(['processor_event_parked'])
      await discard(event.id)
      expect(await unhandled(vendor)).toEqual([])
      await expect(discard(event.id)).rejects.toMatchObject({ code: 'not_found' })
    },
  )

  test('because the database refuses a value is dead-lettered at once, with an alert, and stops no other', async () => {
    const vendor = await harness.givenVendor()
    await harness.sql`alter table facts add constraint refused check (body ->> 'refundRef' <> 're_refused')`
    const [refused, sound] = [anEvent(aRefund('re_refused')), anEvent(aRefund('re_sound'))]
    try {
      await Promise.all([refused, sound].map((event) => deliver(harness, vendor, event)))
      await handled(harness, vendor)
    } finally {
      await harness.sql`alter table facts drop constraint refused`
    }
    expect(await unhandled(vendor)).toMatchObject([{ eventId: refused.id, deadLettered: true, attempts: 1 }])
    expect(await stored(sound.id)).toMatchObject([{ handled: true }])
    expect(alertsOf(harness, vendor)).toEqual(['processor_event_parked'])
    await discard(refused.id)
  })

  test('raises one alert, however many such events there are, and another alert after they are gone', async () => {
    const vendor = await harness.givenVendor()
    const park = async () => {
      const event = anEvent(aRefund(`re_${made}`, { status: 'rewound' }))
      await deliver(harness, vendor, event)
      await handled(harness, vendor)
      return event.id
    }
    const deadLettered = [await park(), await park(), await park()]
    expect(await unhandled(vendor)).toHaveLength(3)
    expect(alertsOf(harness, vendor)).toEqual(['processor_event_parked'])
    for (const id of deadLettered) await discard(id)
    await closeDeadLetterAlerts(harness.sql)
    await discard(await park())
    expect(alertsOf(harness, vendor)).toHaveLength(2)
  })

  test('is replaced by a delivery of the same event that is understood, and then has its effect', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    const sound = anEvent(aRefund(`re_replaced_${made}`, { charge, amount: 4900 }))
    await deliver(harness, vendor, { ...sound, api_version: '2024-06-20' })
    await handled(harness, vendor)
    expect(await unhandled(vendor)).toMatchObject([{ eventId: sound.id, deadLettered: true }])
    await deliver(harness, vendor, sound)
    await handled(harness, vendor)
    expect(await unhandled(vendor)).toEqual([])
    expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
    // A repetition of an event that was handled changes nothing.
    await deliver(harness, vendor, { ...sound, api_version: '2024-06-20' })
    await handled(harness, vendor)
    expect(await unhandled(vendor)).toEqual([])
  })

  test('is read again when it is retried, and then has its effect', async () => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    const strange = aRefund(`re_again_${made}`, { charge, amount: 4900, status: 'rewound' })
    const event = anEvent(strange)
    const { id: eventId } = event
    await deliver(harness, vendor, event)
    await handled(harness, vendor)
    await harness.operations.retryProcessorEvent({ eventId })
    await handled(harness, vendor)
    expect(await unhandled(vendor)).toMatchObject([{ attempts: 2, deadLettered: true }])
    // A release that knows the value would read this event.
    const known = { ...event, ...aRefund(strange.data.object.id, { charge, amount: 4900 }) }
    const body = Buffer.from(JSON.stringify({ ...known, account: vendor.connectedAccount }))
    await harness.sql`update processor_events set body = ${body} where event_id = ${eventId}`
    await harness.operations.retryProcessorEvent({ eventId })
    await handled(harness, vendor)
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
})

test('handled events are deleted after a time, and others stay', async () => {
  const vendor = await harness.givenVendor()
  const event = anEvent()
  const strange = anEvent(aRefund('re_kept', { status: 'rewound' }))
  for (const each of [event, strange]) await deliver(harness, vendor, each)
  await handled(harness, vendor)
  const ids = [event.id, strange.id]
  await harness.sql`
    update processor_events set handled_at = handled_at - interval '46 days', received_at = now() - interval '46 days'
    where event_id = any(${ids})`
  expect(await purgeHandledEvents(harness.sql, timing.handledEventKept, 100)).toBeGreaterThan(0)
  expect(await stored(event.id)).toEqual([])
  expect(await stored(strange.id)).toMatchObject([{ handled: false }])
  await discard(strange.id)
})

test('an event is processed by one worker at a time, and a merchant’s backlog leaves others their share', async () => {
  const [busy, quiet] = ['stripe:acct_busy', 'stripe:acct_quiet']
  const insert = (merchant: string, at: number) =>
    harness.sql`
      insert into processor_events (processor, event_id, merchant, type, body, due_at)
      values ('stripe', ${`evt_${merchant}_${at}`}, ${merchant}, 'refund.created', '{}', now() + interval '1 hour')`
  for (let at = 0; at < 20; at += 1) await insert(busy, at)
  await insert(quiet, 0)
  const undone = transaction(harness.sql, async (tx) => {
    await tx`update processor_events set due_at = now() where merchant in (${busy}, ${quiet})`
    expect(await listOwners(tx, queues.record, '', 10)).toEqual([busy, quiet])
    const mine = await lockDue(tx, queues.record, [busy, quiet], 3)
    expect(mine.map((event) => event.merchant)).toEqual([busy, busy, busy, quiet])
    const theirs = transaction(harness.sql, (other) => lockDue(other, queues.record, [busy, quiet], 3))
    expect(await theirs).toEqual([])
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow(/^undone$/)
  await harness.sql`delete from processor_events where merchant in (${busy}, ${quiet})`
})

describe('the processor’s own list of events', () => {
  const day = 24 * 3_600_000
  const compare = (vendor: Vendor, since: number, deps = harness.deps) =>
    reconcile(deps, { merchant: `stripe:${vendor.connectedAccount}`, reconciled_to: new Date(since) })

  test('has the events that never arrived, with the same result', async () => {
    const vendor = await harness.givenVendor()
    await dropEvents(harness, vendor)
    const session = await openCheckout(harness, vendor)
    await pay(harness, session)
    await harness.simulator.control('refund', { charge: checkoutRefOf(session) })
    await handled(harness, vendor)
    expect(await statusOf(harness, vendor, session.id)).toBe('open')
    for (let times = 0; times < 2; times += 1) {
      await compare(vendor, Date.now())
      await handled(harness, vendor)
      expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
      expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }])
      expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    }
  })

  describe('in an API version of the account that is not used here', () => {
    const listedInOldVersion = async (vendor: Vendor) => {
      const { connectedAccount: account } = vendor
      await harness.simulator.control('settings', { account, api_version: '2024-06-20' })
      await dropEvents(harness, vendor)
    }
    const compared = async (vendor: Vendor) => {
      await compare(vendor, Date.now())
      await handled(harness, vendor)
      expect(await unhandled(vendor)).toEqual([])
    }

    test('says only that events exist: their objects are read, with the same result as from deliveries', async () => {
      const vendors = [await harness.givenVendor(monthly), await harness.givenVendor(monthly)]
      await listedInOldVersion(vendors[1]!)
      const outcomes = await Promise.all(
        vendors.map(async (vendor) => {
          const sessions = await openCheckouts(harness, vendor, 2)
          for (const session of sessions) await pay(harness, session)
          const control = <Answer extends object>(name: string, how: object) =>
            harness.simulator.control<Answer>(name, how)
          const path = `checkout/sessions/${checkoutRefOf(sessions[0]!)}`
          const { subscription } = await askProcessor<{ subscription: string }>(harness, path, vendor)
          const charges = await askProcessor<{ data: { id: string }[] }>(harness, 'charges', vendor)
          await handled(harness, vendor)
          await control('renew', { subscription })
          for (const when of ['period_end', 'undo', 'period_end'])
            await control('cancel', { subscription, when })
          for (let times = 0; times < 3; times += 1) await control('fail-invoice', { subscription })
          const { id } = await control<{ id: string }>('refund', { charge: charges.data[0]!.id })
          await control('refund-status', { refund: id, status: 'failed' })
          await compared(vendor)
          return outcomeOf(harness, vendor)
        }),
      )
      expect(outcomes[1]).toEqual(outcomes[0])
      expect(outcomes[0]!.licences).toHaveLength(2)
    })

    test('says when a delayed payment succeeded, although its checkout is paid when it is read', async () => {
      const vendor = await harness.givenVendor({ price: { periodMonths: 1 } })
      await listedInOldVersion(vendor)
      const session = await openCheckout(harness, vendor)
      const completed = Math.floor(Date.now() / 1000) - 3000
      await pay(harness, session, { method: 'delayed', created: completed })
      await pay(harness, session, { created: completed + 1000 })
      await compared(vendor)
      const [row] = await harness.sql<{ paid_at: Date }[]>`
        select paid_at from checkout_sessions where id = ${session.id}`
      expect(row!.paid_at.getTime()).toBe((completed + 1000) * 1000)
    })

    test('gives a licence to a customer who paid while another one’s refund looked for missed events', async () => {
      const vendor = await harness.givenVendor()
      const { charge } = await givenSold(harness, vendor)
      await listedInOldVersion(vendor)
      const session = await openCheckout(harness, vendor)
      await pay(harness, session)
      const refund = await harness.simulator.control<{ id: string }>('refund', { charge })
      const events = await eventsAt(harness, vendor)
      const at = events.filter(({ data }) => data.object.id === refund.id || data.object.id === charge)
      for (const event of at) await deliver(harness, vendor, { ...event, api_version: Stripe.API_VERSION })
      await handled(harness, vendor)
      expect(await statusOf(harness, vendor, session.id)).toBe('provisioned')
      expect(await unhandled(vendor)).toEqual([])
    })
  })

  test('is put into the inbox oldest first, all of it or none', async () => {
    const vendor = await harness.givenVendor()
    await dropEvents(harness, vendor)
    const session = await openCheckout(harness, vendor)
    const charge = checkoutRefOf(session)
    await pay(harness, session)
    // More events than a page of the list has.
    for (let part = 0; part < 60; part += 1) await harness.simulator.control('refund', { charge, amount: 50 })
    const inboxed = async () => {
      const rows = await harness.sql<{ event_id: string }[]>`
        select event_id from processor_events where merchant = ${`stripe:${vendor.connectedAccount}`} order by position`
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
    const failing = compare(vendor, Date.now(), { ...harness.deps, processor: secondPageFails })
    await expect(failing).rejects.toThrow('second page')
    expect(await inboxed()).toEqual([])
    await compare(vendor, Date.now())
    const listed = (await eventsAt(harness, vendor)).filter(({ type }) => processor.understands(type))
    expect(listed.length).toBeGreaterThan(100)
    expect(await inboxed()).toEqual(listed.map((event) => event.id))
    await handled(harness, vendor)
  })

  test('does not count as compared if it cannot be read, and is read as soon as it can be', async () => {
    const vendor = await harness.givenVendor()
    const merchant = `stripe:${vendor.connectedAccount}`
    const before = Date.now() - 3_600_000
    await harness.sql`update reconciliations set reconciled_to = ${new Date(before)} where merchant = ${merchant}`
    const fault = { answer: '403', next: 1, path: '/v1/events', account: vendor.connectedAccount }
    await harness.simulator.control('faults', fault)
    const comparedTo = async () => {
      const [row] = await harness.sql<{ reconciled_to: Date }[]>`
        select reconciled_to from reconciliations where merchant = ${merchant}`
      return row!.reconciled_to.getTime()
    }
    await expect(compare(vendor, before)).rejects.toThrow()
    expect(await comparedTo()).toBe(before)
    await compare(vendor, before)
    expect(await comparedTo()).toBeGreaterThan(before)
  })

  test('has a gap after more than 30 days, which is reported', async () => {
    const vendor = await harness.givenVendor()
    await compare(vendor, Date.now() - 29 * day)
    await compare(vendor, Date.now() - 31 * day)
    await handled(harness, vendor)
    expect(alertsOf(harness, vendor)).toEqual(['processor_events_missed'])
  })
})
