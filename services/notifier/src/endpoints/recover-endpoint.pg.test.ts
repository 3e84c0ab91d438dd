import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { Event } from '@licensing/proto/events'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { startTestNotifier } from '../../test/notifier.ts'
import { keepPartitions } from '../maintenance/maintenance.ts'
import { createLogger } from '@licensing/process/log'

const dayMs = 86_400_000
const log = createLogger('test', 'silent')

let receiver: HttpsReceiver
beforeAll(async () => {
  receiver = await startHttpsReceiver()
})
afterAll(() => receiver[Symbol.asyncDispose]())

const at = (ms: number) => timestampFromDate(new Date(ms))

async function given(options: { backoffSeconds?: number[] } = {}) {
  const notifier = await startTestNotifier({ receiver, backoffSeconds: [600], ...options })
  const since = at(notifier.clock.now().getTime() - dayMs)
  return {
    notifier,
    /** Recovers the events of the last day. */
    recover: async (endpointId: string, of: object = {}) =>
      Number((await notifier.calls.recoverEndpoint({ ...notifier.of, endpointId, since, ...of })).deliveries),
    async recorded(events: Event[]) {
      await publish(notifier, events)
      const count = () =>
        notifier.sql`select 1 from events where id = any(${events.map(({ id }) => id)}::text[])`
      await eventually(async () => expect(await count()).toHaveLength(events.length))
      return events
    },
    [Symbol.asyncDispose]: () => notifier[Symbol.asyncDispose](),
  }
}

const suspended = (notifier: TestNotifier, occurredAt = new Date()): Event =>
  givenEvent({
    ...notifier.of,
    occurredAt,
    payload: { case: 'licenceSuspended', value: { licenceId: newId('lic'), status: 'suspended' } },
  })

const retired = (notifier: TestNotifier): Event =>
  givenEvent({
    ...notifier.of,
    payload: { case: 'licenceRetired', value: { licenceId: newId('lic'), status: 'retired' } },
  })

const requestsAt = (path: string) => receiver.requests.filter((request) => request.path === path)
const idsAt = (path: string) => requestsAt(path).map(({ headers }) => String(headers['webhook-id']))

async function settled(notifier: TestNotifier, endpointId: string, count: number) {
  await eventually(async () =>
    expect(await notifier.deliveries({ endpointId, status: 'delivered' })).toHaveLength(count),
  )
}

test('a new endpoint gets earlier events with the same ids and bytes, in order of sequence', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  const path = `/${newId('evt')}`
  const events = await recorded(Array.from({ length: 60 }, () => suspended(notifier)))
  const { id } = await notifier.register(receiver.url(path))
  expect(await recover(id)).toBe(60)
  await settled(notifier, id, 60)
  const rows = await notifier.sql<
    { id: string; body: string }[]
  >`select id, body from events order by sequence`
  expect(idsAt(path).toSorted()).toEqual(events.map((event) => event.id).toSorted())
  const bodies = new Map(rows.map((row) => [row.id, row.body]))
  for (const { headers, body } of requestsAt(path)) {
    expect(body.toString()).toBe(bodies.get(String(headers['webhook-id'])))
  }
  // 32 deliveries are in flight at once, so an event can arrive at most 32 places early or late.
  const places = new Map(rows.map((row, place) => [row.id, place]))
  idsAt(path).forEach((event, arrived) =>
    expect(Math.abs(places.get(event)! - arrived)).toBeLessThanOrEqual(32),
  )
  const deliveries = await notifier.deliveries({ endpointId: id })
  expect(
    deliveries.every(({ licenceId, attemptCount }) => licenceId !== undefined && attemptCount === 1),
  ).toBe(true)
})

test('repeated and concurrent recoveries send nothing twice', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  const path = `/${newId('evt')}`
  await recorded(Array.from({ length: 100 }, () => suspended(notifier)))
  const { id } = await notifier.register(receiver.url(path))
  const counts = await Promise.all([recover(id), recover(id), recover(id)])
  expect(counts.toSorted((a, b) => a - b)).toEqual([0, 0, 100])
  await settled(notifier, id, 100)
  expect(await recover(id)).toBe(0)
  expect(idsAt(path)).toHaveLength(100)
  expect(new Set(idsAt(path)).size).toBe(100)
})

test('delivered and pending events are not recovered; failed ones are, each time they have failed', async () => {
  await using bed = await given({ backoffSeconds: [0.01] })
  const { notifier, recover } = bed
  const path = `/${newId('evt')}`
  const { id } = await notifier.register(receiver.url(path))
  await notifier.happen(3)
  await settled(notifier, id, 3)
  expect(await recover(id)).toBe(0)
  const rows = await notifier.deliveries({ endpointId: id })
  await notifier.sql`update deliveries set status = 'failed' where id = ${rows[0]!.id}`
  await notifier.sql`
    update deliveries set status = 'pending', due_at = now() + interval '1 hour', retry_at = now() + interval '1 hour'
    where id = ${rows[1]!.id}`
  expect(await recover(id)).toBe(1)
  await settled(notifier, id, 2)
  const [fresh] = await notifier.deliveries({ endpointId: id })
  expect(fresh!.eventId).toBe(rows[0]!.eventId)
  await notifier.sql`update deliveries set status = 'failed' where id = ${fresh!.id}`
  expect(await recover(id)).toBe(1)
  await settled(notifier, id, 2)
})

test('a recovery covers events created from its start on and before its end', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  const now = Date.now()
  const times = [now - 5_000, now - 4_000, now - 3_000, now - 2_000]
  const events = await recorded(times.map((ms) => suspended(notifier, new Date(ms))))
  const recovered = async (since: number, until?: number) => {
    const { id } = await notifier.register(receiver.url(`/${newId('evt')}`))
    await recover(id, { since: at(since), ...(until !== undefined && { until: at(until) }) })
    const rows = await notifier.deliveries({ endpointId: id })
    return rows
      .map(({ eventId }) => events.findIndex((event) => event.id === eventId))
      .toSorted((a, b) => a - b)
  }
  expect(await recovered(times[1]!, times[3])).toEqual([1, 2])
  expect(await recovered(times[1]! + 1, times[3]! + 1)).toEqual([2, 3])
  expect(await recovered(times[2]!)).toEqual([2, 3])
  expect(await recovered(0, times[0])).toEqual([])
})

test('a recovery covers only requested types that the endpoint is subscribed to', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  await recorded([suspended(notifier), retired(notifier), suspended(notifier), retired(notifier)])
  const narrow = await notifier.register(receiver.url(), 'licence.retired,licence.revoked')
  expect(await recover(narrow.id, { types: ['licence.suspended'] })).toBe(0)
  expect(await recover(narrow.id)).toBe(2)
  const wide = await notifier.register(receiver.url())
  expect(await recover(wide.id, { types: ['licence.suspended', 'licence.revoked'] })).toBe(2)
  expect(await recover(wide.id)).toBe(2)
})

test('a recovery covers only test events that were sent to the endpoint', async () => {
  await using bed = await given()
  const { notifier, recover } = bed
  const one = await notifier.register(receiver.url())
  const other = await notifier.register(receiver.url())
  await notifier.calls.sendTestEvent({ ...notifier.of, endpointId: one.id })
  await settled(notifier, one.id, 1)
  expect(await recover(other.id)).toBe(0)
  await notifier.sql`update deliveries set status = 'failed'`
  expect(await recover(other.id)).toBe(0)
  expect(await recover(one.id)).toBe(1)
})

test('events of another application or account, or past retention, are not recovered', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  const elsewhere = { ...notifier.of, applicationId: newId('app') }
  await recorded([givenEvent({ ...elsewhere, payload: suspended(notifier).payload }), suspended(notifier)])
  const { id } = await notifier.register(receiver.url())
  await expect(recover(id, { accountId: newId('acct') })).rejects.toMatchObject({ code: 'not_found' })
  await expect(recover(id, elsewhere)).rejects.toMatchObject({ code: 'not_found' })
  notifier.clock.advance(91 * dayMs)
  await keepPartitions(notifier.sql, new Date(), log)
  expect(await recover(id)).toBe(0)
  notifier.clock.advance(-91 * dayMs)
  expect(await recover(id)).toBe(1)
})

test('a disabled endpoint, an empty period and an unknown type are refused, and nothing is written', async () => {
  await using bed = await given()
  const { notifier, recover, recorded } = bed
  await recorded([suspended(notifier)])
  const { id } = await notifier.register(receiver.url())
  const now = Date.now()
  const refused = (of: object, code: string) => expect(recover(id, of)).rejects.toMatchObject({ code })
  await refused({ since: at(now), until: at(now) }, 'validation_failed')
  await refused({ since: at(now + dayMs) }, 'validation_failed')
  await refused({ types: ['licence.suspended', 'licence.frozen'] }, 'validation_failed')
  await notifier.calls.deleteEndpoint({ ...notifier.of, endpointId: id })
  await refused({}, 'conflict')
  expect(await notifier.deliveries()).toEqual([])
})
