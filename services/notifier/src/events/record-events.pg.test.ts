import { transaction } from '@licensing/database/transaction'
import { toBinary } from '@bufbuild/protobuf'
import { WireType } from '@bufbuild/protobuf/wire'
import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { EventSchema } from '@licensing/proto/events'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, expect, test } from 'vitest'
import { findKnownEvents } from './record-events.ts'
import { givenEvent, givenLicenceEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, notifierOfFile, startTestNotifier } from '../../test/notifier.ts'

const receiver = await startHttpsReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())
const vendor = notifierOfFile()

async function envelopes(
  { calls, of }: TestNotifier,
  options: { accountId?: string; onlyApplicationId?: string; after?: bigint } = {},
) {
  const request = { accountId: of.accountId, after: 0n, limit: 200, ...options }
  const { envelopes } = await calls.listEvents(request)
  return envelopes.map((text) => JSON.parse(text) as { id: string; sequence: number; application_id: string })
}

const recorded = (notifier: TestNotifier, count: number) =>
  eventually(async () => {
    const found = await envelopes(notifier)
    expect(found).toHaveLength(count)
    return found
  })

const receivedAt = (path: string, count: number) =>
  eventually(() => {
    const requests = receiver.requests.filter((request) => request.path === path)
    expect(requests).toHaveLength(count)
    return requests
  })

test('the body is the envelope of the interface, byte for byte', async () => {
  const notifier = vendor()
  const { of } = notifier
  const path = `/${newId('evt')}`
  await notifier.register(receiver.url(path))
  const occurredAt = new Date('2026-02-03T04:05:06.007Z')
  const previous = { planId: 'pln_1' }
  const value = { licenceId: 'lic_1', planId: 'pln_2', status: 'active', previous }
  const changed = givenEvent({ ...of, occurredAt, payload: { case: 'licencePlanChanged', value } })
  const cap = { period: '2026-02', capMinor: 10_000n, spentMinor: 10_050n }
  const capReached = givenEvent({ ...of, occurredAt, payload: { case: 'spendCapReached', value: cap } })
  await publish(notifier, [changed])
  await recorded(notifier, 1)
  await publish(notifier, [capReached], { source: 'billing' })
  const requests = await receivedAt(path, 2)
  const bodies = new Map(requests.map(({ headers, body }) => [headers['webhook-id'], body.toString()]))
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
  const notifier = vendor()
  const { calls, of } = notifier
  const path = `/${newId('evt')}`
  await notifier.register(receiver.url(path))
  const reason = 'é "quoted" \\ \n \u{1f680} \ud800 \u0000 {},NULL'
  const value = { licenceId: 'lic_1', status: 'suspended', reason }
  await publish(notifier, [givenEvent({ ...of, payload: { case: 'licenceSuspended', value } })])
  const [request] = await receivedAt(path, 1)
  const [delivery] = await notifier.deliveries()
  const { payload } = await calls.getDelivery({ ...of, deliveryId: delivery!.id })
  expect(payload).toBe(request!.body.toString())
  const { data } = JSON.parse(payload!) as { data: { object: { reason: string } } }
  // Protobuf has no lone surrogates.
  expect(data.object.reason).toBe(reason.replace('\ud800', '\ufffd'))
})

test('sequences have no gap and no duplicate, and follow the order of an account’s events', async () => {
  const vendors = [vendor(), vendor(), vendor()]
  const events = Array.from({ length: 600 }, (_, i) => givenLicenceEvent(vendors[i % 3]!.of))
  const halves = [events.slice(0, 300), events.slice(300)]
  await publish(vendors[0]!, halves[0]!)
  await publish(vendors[0]!, halves[1]!, { source: 'billing' })
  for (const notifier of vendors) {
    const found = await recorded(notifier, 200)
    expect(found.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1))
    const order = new Map(found.map(({ id }, i) => [id, i]))
    for (const half of halves) {
      const own = half.filter(({ accountId }) => accountId === notifier.of.accountId)
      const places = own.map(({ id }) => order.get(id)!)
      expect(places).toEqual(places.toSorted((a, b) => a - b))
    }
  }
})

test('an event is sent to every enabled endpoint of its application that is subscribed to its type', async () => {
  const notifier = vendor()
  const { calls, of } = notifier
  const neighbour = { ...of, applicationId: newId('app') }
  const url = receiver.url('/subscribed')
  const all = await notifier.register(url)
  const listed = await notifier.register(url, 'licence.created,licence.suspended')
  await notifier.register(url, 'licence.created')
  await calls.createEndpoint({ ...neighbour, fields: { url, subscribedEvents: '*' } })
  const deleted = await notifier.register(url)
  await calls.deleteEndpoint({ ...of, endpointId: deleted.id })
  await publish(notifier, [givenLicenceEvent(of)])
  await eventually(async () => {
    const deliveries = await notifier.deliveries({ status: 'delivered' })
    expect(deliveries.map(({ endpointId }) => endpointId).sort()).toEqual([all.id, listed.id].sort())
  })
  expect(await notifier.deliveries()).toHaveLength(2)
  expect((await calls.listDeliveries({ ...neighbour, ...firstPage })).deliveries).toEqual([])
})

test('events without a webhook type, and events of unknown types, get no sequence', async () => {
  const notifier = vendor()
  const { of } = notifier
  const internal = givenEvent({ ...of, payload: { case: 'planCopyChanged', value: {} } })
  const unknown = givenEvent({ ...of, payload: { case: undefined } })
  // An event of a type that this release does not know.
  unknown.$unknown = [{ no: 41, wireType: WireType.LengthDelimited, data: Uint8Array.of(2, 0x0a, 0) }]
  await publish(notifier, [internal, unknown, givenLicenceEvent(of)])
  expect(await recorded(notifier, 1)).toMatchObject([{ sequence: 1 }])
})

test('events of an account are listed in order after a given sequence, and the latest sequence is known', async () => {
  const notifier = vendor()
  const { calls, of } = notifier
  const { accountId } = of
  const other = { ...of, applicationId: newId('app') }
  const latest = async () => (await calls.getLatestSequence({ accountId })).sequence
  expect(await latest()).toBe(0n)
  const events = Array.from({ length: 7 }, (_, i) => givenLicenceEvent(i % 2 === 0 ? of : other))
  await publish(notifier, events)
  await recorded(notifier, 7)
  expect(await latest()).toBe(7n)

  const page = await calls.listEvents({ accountId, after: 2n, limit: 3 })
  expect(page.envelopes.map((text) => (JSON.parse(text) as { id: string }).id)).toEqual(
    events.slice(2, 5).map(({ id }) => id),
  )
  expect(page.nextAfter).toBe(5n)
  expect(await calls.listEvents({ accountId, after: 7n, limit: 3 })).toMatchObject({
    envelopes: [],
    nextAfter: 7n,
  })
  const bound = await envelopes(notifier, { onlyApplicationId: other.applicationId })
  expect(bound.map(({ sequence }) => sequence)).toEqual([2, 4, 6])
  const boundAfter = await envelopes(notifier, { onlyApplicationId: other.applicationId, after: 4n })
  expect(boundAfter).toMatchObject([{ sequence: 6, application_id: other.applicationId }])
  expect(await envelopes(notifier, { accountId: newId('acct') })).toEqual([])
})

test('events that arrive after the clock was set months ahead wait only for their partition', async () => {
  await using notifier = await startTestNotifier()
  notifier.clock.advance(200 * 86_400_000)
  await notifier.happen(3)
  await recorded(notifier, 3)
})

test('events for very many endpoints are recorded in batches that fit into memory, each delivery once', async () => {
  const notifier = vendor()
  const { sql, of } = notifier
  const addEndpoints = (from: number, to: number) => sql`
    insert into endpoints (id, account_id, application_id, url, encrypted_secret, created_at)
    select 'whe_' || i, ${of.accountId}, ${of.applicationId}, 'https://example.com', '', now()
    from generate_series(${from}::int, ${to}::int) as i`
  const batches = async () => {
    const rows = await sql<{ rows: number; made: number }[]>`
      select count(*)::int as rows, count(distinct (endpoint_id, event_id))::int as made
      from deliveries where application_id = ${of.applicationId} group by recorded_at order by recorded_at`
    for (const batch of rows) expect(batch.made).toBe(batch.rows)
    return rows.map((batch) => batch.rows)
  }
  await addEndpoints(1, 1_500)
  const events = await notifier.happen(10)
  expect((await recorded(notifier, 10)).map(({ id }) => id)).toEqual(events.map(({ id }) => id))
  const some = await batches()
  expect(some.reduce((sum, rows) => sum + rows, 0)).toBe(15_000)
  expect(Math.max(...some)).toBeLessThanOrEqual(10_000)
  // An event with more deliveries than that is a batch of its own.
  await addEndpoints(1_501, 12_000)
  await notifier.happen(1)
  await recorded(notifier, 11)
  expect((await batches()).slice(some.length)).toEqual([12_000])
})

test('events that licensing publishes again after a restored backup are recorded once, and so are alerts', async () => {
  const notifier = vendor()
  const { of } = notifier
  const value = { subject: 'Refund', text: 'failed', kind: 'refund_reversed' }
  const alert = givenEvent({ ...of, payload: { case: 'vendorAlert', value } })
  const [first, second, later] = [givenLicenceEvent(of), givenLicenceEvent(of), givenLicenceEvent(of)]
  await publish(notifier, [first, alert, second])
  await recorded(notifier, 2)
  const asReceived = [first, second, alert, later].map((event) => ({
    event,
    payload: toBinary(EventSchema, event),
    traceParent: undefined,
  }))
  const known = await transaction(notifier.sql, (tx) => findKnownEvents(tx, asReceived))
  expect(known).toEqual(new Set([first.id, second.id, alert.id]))
})
