import { transaction } from '@licensing/database/transaction'
import { toBinary } from '@bufbuild/protobuf'
import { WireType } from '@bufbuild/protobuf/wire'
import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { EventSchema } from '@licensing/proto/events'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findKnownEvents } from './consume-events.ts'
import { givenEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, startTestNotifier } from '../../test/notifier.ts'

let receiver: Awaited<ReturnType<typeof startHttpsReceiver>>
let notifier: TestNotifier
beforeAll(async () => {
  receiver = await startHttpsReceiver()
  notifier = await startTestNotifier({ receiver })
})
afterAll(async () => {
  await notifier[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

const givenVendor = () => ({ accountId: newId('acct'), applicationId: newId('app') })

const revoked = (of: { accountId: string; applicationId: string }) =>
  givenEvent({
    ...of,
    payload: { case: 'licenceRevoked', value: { licenceId: newId('lic'), status: 'revoked' } },
  })

async function envelopes(accountId: string, options: { onlyApplicationId?: string; after?: bigint } = {}) {
  const { envelopes } = await notifier.calls.listEvents({ accountId, after: 0n, limit: 200, ...options })
  return envelopes.map((text) => JSON.parse(text) as { id: string; sequence: number; application_id: string })
}

test('the body is the envelope of the interface, byte for byte', async () => {
  const of = givenVendor()
  const path = `/${newId('evt')}`
  await notifier.calls.createEndpoint({ ...of, url: receiver.url(path), subscribedEvents: '*' })
  const occurredAt = new Date('2026-02-03T04:05:06.007Z')
  const changed = givenEvent({
    ...of,
    occurredAt,
    payload: {
      case: 'licencePlanChanged',
      value: { licenceId: 'lic_1', planId: 'pln_2', status: 'active', previous: { planId: 'pln_1' } },
    },
  })
  const capReached = givenEvent({
    ...of,
    occurredAt,
    payload: {
      case: 'spendCapReached',
      value: { period: '2026-02', capMinor: 10_000n, spentMinor: 10_050n },
    },
  })
  await publish(notifier, [changed])
  await eventually(async () => expect(await envelopes(of.accountId)).toHaveLength(1))
  await publish(notifier, [capReached], { source: 'billing' })
  const bodies = await eventually(() => {
    const requests = receiver.requests.filter((request) => request.path === path)
    expect(requests).toHaveLength(2)
    return new Map(requests.map(({ headers, body }) => [headers['webhook-id'], body.toString()]))
  })
  const head = (id: string, type: string, sequence: number) =>
    `{"id":"${id}","type":"${type}","api_version":"2026-11-01","created_at":"2026-02-03T04:05:06.007Z",` +
    `"sequence":${sequence},"account_id":"${of.accountId}","application_id":"${of.applicationId}",`
  expect(bodies.get(changed.id)).toBe(
    `${head(changed.id, 'licence.plan_changed', 1)}"data":{"object":{"licence_id":"lic_1","plan_id":"pln_2",` +
      `"status":"active"}},"previous":{"plan_id":"pln_1"}}`,
  )
  expect(bodies.get(capReached.id)).toBe(
    `${head(capReached.id, 'spend_cap.reached', 2)}"data":{"object":{"period":"2026-02","cap_minor":10000,` +
      `"spent_minor":10050}},"previous":null}`,
  )
})

test('every attempt and the delivery log have the same bytes, whatever the event contains', async () => {
  const of = givenVendor()
  const path = `/${newId('evt')}`
  await notifier.calls.createEndpoint({ ...of, url: receiver.url(path), subscribedEvents: '*' })
  const reason = 'é "quoted" \\ \n \u{1f680} \ud800 \u0000 {},NULL'
  await publish(notifier, [
    givenEvent({
      ...of,
      payload: { case: 'licenceSuspended', value: { licenceId: 'lic_1', status: 'suspended', reason } },
    }),
  ])
  const request = await eventually(() => {
    const found = receiver.requests.find((request) => request.path === path)
    if (!found) throw new Error('nothing has arrived')
    return found
  })
  const [delivery] = (await notifier.calls.listDeliveries({ ...of, ...firstPage })).deliveries
  const { payload } = await notifier.calls.getDelivery({ ...of, deliveryId: delivery!.id })
  expect(payload).toBe(request.body.toString())
  const { data } = JSON.parse(payload!) as { data: { object: { reason: string } } }
  // Protobuf has no lone surrogates.
  expect(data.object.reason).toBe(reason.replace('\ud800', '\ufffd'))
})

test('sequences have no gap and no duplicate, and follow the order of an account’s events', async () => {
  const vendors = [givenVendor(), givenVendor(), givenVendor()]
  const events = Array.from({ length: 600 }, (_, i) => revoked(vendors[i % 3]!))
  await publish(notifier, events.slice(0, 300))
  await publish(notifier, events.slice(300), { source: 'billing' })
  for (const { accountId } of vendors) {
    const recorded = await eventually(async () => {
      const first = await envelopes(accountId)
      expect(first).toHaveLength(200)
      return first
    })
    expect(recorded.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1))
    const order = new Map(recorded.map(({ id }, i) => [id, i]))
    for (const half of [events.slice(0, 300), events.slice(300)]) {
      const own = half.filter((event) => event.accountId === accountId).map(({ id }) => order.get(id)!)
      expect(own).toEqual(own.toSorted((a, b) => a - b))
    }
  }
})

test('an event is sent to every enabled endpoint of its application that is subscribed to its type', async () => {
  const of = givenVendor()
  const neighbour = { ...of, applicationId: newId('app') }
  const endpoint = async (vendor: typeof of, subscribedEvents: string) => {
    const url = receiver.url('/subscribed')
    return (await notifier.calls.createEndpoint({ ...vendor, url, subscribedEvents })).endpoint!.id
  }
  const all = await endpoint(of, '*')
  const listed = await endpoint(of, 'licence.created,licence.revoked')
  await endpoint(of, 'licence.created')
  await endpoint(neighbour, '*')
  const deleted = await endpoint(of, '*')
  await notifier.calls.deleteEndpoint({ ...of, endpointId: deleted })
  await publish(notifier, [revoked(of)])
  await eventually(async () => {
    const { deliveries } = await notifier.calls.listDeliveries({ ...of, ...firstPage })
    expect(deliveries.map(({ endpointId }) => endpointId).sort()).toEqual([all, listed].sort())
    expect(deliveries.every(({ status }) => status === 'delivered')).toBe(true)
  })
  expect((await notifier.calls.listDeliveries({ ...neighbour, ...firstPage })).deliveries).toEqual([])
})

test('events without a webhook type, and events of unknown types, get no sequence', async () => {
  const of = givenVendor()
  const internal = givenEvent({ ...of, payload: { case: 'planCopyChanged', value: {} } })
  const unknown = givenEvent({ ...of, payload: { case: undefined } })
  // An event of a type that this release does not know.
  unknown.$unknown = [{ no: 41, wireType: WireType.LengthDelimited, data: Uint8Array.of(2, 0x0a, 0) }]
  await publish(notifier, [internal, unknown, revoked(of)])
  await eventually(async () =>
    expect((await envelopes(of.accountId)).map(({ sequence }) => sequence)).toEqual([1]),
  )
})

test('events of an account are listed in order, after a given sequence', async () => {
  const of = givenVendor()
  const other = { ...of, applicationId: newId('app') }
  const events = Array.from({ length: 7 }, (_, i) => revoked(i % 2 === 0 ? of : other))
  await publish(notifier, events)
  await eventually(async () => expect(await envelopes(of.accountId)).toHaveLength(7))

  const { calls } = notifier
  const page = await calls.listEvents({ accountId: of.accountId, after: 2n, limit: 3 })
  expect(page.envelopes.map((text) => (JSON.parse(text) as { id: string }).id)).toEqual(
    events.slice(2, 5).map(({ id }) => id),
  )
  expect(page.nextAfter).toBe(5n)
  const end = await calls.listEvents({ accountId: of.accountId, after: 7n, limit: 3 })
  expect(end).toMatchObject({ envelopes: [], nextAfter: 7n })
  const bound = await envelopes(of.accountId, { onlyApplicationId: other.applicationId })
  expect(bound.map(({ sequence }) => sequence)).toEqual([2, 4, 6])
  expect(await envelopes(newId('acct'))).toEqual([])
})

test('events that arrive after the clock was set months ahead wait only for their partition', async () => {
  await using notifier = await startTestNotifier()
  notifier.clock.advance(200 * 86_400_000)
  await notifier.happen(3)
  await eventually(async () => {
    const { envelopes } = await notifier.calls.listEvents({
      accountId: notifier.of.accountId,
      after: 0n,
      limit: 0,
    })
    expect(envelopes).toHaveLength(3)
  })
})

test('one event is sent to very many endpoints', async () => {
  const of = givenVendor()
  await notifier.sql`
    insert into endpoints (id, account_id, application_id, url, encrypted_secret, created_at)
    select 'whe_' || i, ${of.accountId}, ${of.applicationId}, 'https://example.com', '', now()
    from generate_series(1, 12000) as i`
  await publish(notifier, [revoked(of)])
  await eventually(async () => {
    const [row] = await notifier.sql<{ count: number }[]>`
      select count(distinct endpoint_id)::int as count from deliveries where application_id = ${of.applicationId}`
    expect(row!.count).toBe(12_000)
  })
})

test('many events for many endpoints are recorded in batches that fit into memory, each delivery once', async () => {
  const of = givenVendor()
  await notifier.sql`
    insert into endpoints (id, account_id, application_id, url, encrypted_secret, created_at)
    select 'whe_many_' || i, ${of.accountId}, ${of.applicationId}, 'https://example.com', '', now()
    from generate_series(1, 1000) as i`
  const events = Array.from({ length: 25 }, () => revoked(of))
  await publish(notifier, events)
  await eventually(async () => expect(await envelopes(of.accountId)).toHaveLength(25))
  expect((await envelopes(of.accountId)).map(({ id }) => id)).toEqual(events.map(({ id }) => id))
  const parts = await notifier.sql<{ rows: number; made: number }[]>`
    select count(*)::int as rows, count(distinct (endpoint_id, event_id))::int as made
    from deliveries where application_id = ${of.applicationId} group by recorded_at`
  expect(parts.reduce((sum, { made }) => sum + made, 0)).toBe(25_000)
  expect(Math.max(...parts.map(({ rows }) => rows))).toBeLessThanOrEqual(10_000)
})

test('the latest sequence is that of the account’s last event, or 0 if it has none', async () => {
  const of = givenVendor()
  const latest = async () => (await notifier.calls.getLatestSequence({ accountId: of.accountId })).sequence
  expect(await latest()).toBe(0n)
  await publish(notifier, [revoked(of), revoked({ ...of, applicationId: newId('app') })])
  await eventually(async () => expect(await envelopes(of.accountId)).toHaveLength(2))
  const from = await latest()
  expect(from).toBe(2n)
  await publish(notifier, [revoked({ ...of, applicationId: newId('app') }), revoked(of)])
  const later = await eventually(async () => {
    const own = await envelopes(of.accountId, { onlyApplicationId: of.applicationId, after: from })
    expect(own).toHaveLength(1)
    return own
  })
  expect(later[0]!.application_id).toBe(of.applicationId)
})

test('events that licensing publishes again after a restored backup are recorded once, and so are alerts', async () => {
  const of = givenVendor()
  const alert = givenEvent({
    ...of,
    payload: { case: 'vendorAlert', value: { subject: 'Refund', text: 'failed', kind: 'refund_reversed' } },
  })
  const [first, second] = [revoked(of), revoked(of)]
  await publish(notifier, [first, alert, second])
  await eventually(async () => expect(await envelopes(of.accountId)).toHaveLength(2))
  const later = revoked(of)
  const asReceived = [first, second, alert, later].map((event) => ({
    event,
    payload: toBinary(EventSchema, event),
    traceParent: undefined,
  }))
  const known = await transaction(notifier.sql, (tx) => findKnownEvents(tx, asReceived))
  expect(known).toEqual(new Set([first.id, second.id, alert.id]))
})
