import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { createLogger } from '@licensing/process/log'
import type { Event } from '@licensing/proto/events'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, expect, test } from 'vitest'
import { givenLicenceEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { notifierOfFile } from '../../test/notifier.ts'
import { givenPastEvents } from '../../test/past-events.ts'
import { keepPartitions } from '../maintenance/maintenance.ts'

const dayMs = 86_400_000
const log = createLogger('test', 'silent')

const receiver = await startHttpsReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())
const vendor = notifierOfFile({ backoffSeconds: [600] })

const at = (ms: number) => timestampFromDate(new Date(ms))

/** Recovers the events of the last day. */
async function recover({ calls, of, clock }: TestNotifier, endpointId: string, options: object = {}) {
  const since = at(clock.now().getTime() - dayMs)
  return Number((await calls.recoverEndpoint({ ...of, endpointId, since, ...options })).deliveries)
}

async function recorded(notifier: TestNotifier, events: Event[]) {
  await publish(notifier, events)
  const ids = events.map(({ id }) => id)
  const found = () => notifier.sql`select 1 from events where id = any(${ids}::text[])`
  await eventually(async () => expect(await found()).toHaveLength(events.length))
}

async function settled(notifier: TestNotifier, endpointId: string, count: number) {
  await eventually(async () =>
    expect(await notifier.deliveries({ endpointId, status: 'delivered' })).toHaveLength(count),
  )
}

test('a new endpoint gets earlier events with the same ids and bytes, in order of sequence', async () => {
  const notifier = vendor()
  const { sql, of } = notifier
  const path = `/${newId('evt')}`
  await givenPastEvents(sql, of, 200)
  const { id } = await notifier.register(receiver.url(path))
  expect(await recover(notifier, id)).toBe(200)
  const rows = () => sql<{ id: string; body: string; licence_id: string | null }[]>`
    select e.id, e.body, d.licence_id from deliveries d
    join events e on e.account_id = d.account_id and e.sequence = d.sequence
    where d.endpoint_id = ${id} and d.status = 'delivered' and d.attempt_count = 1 order by d.sequence`
  await eventually(async () => expect(await rows()).toHaveLength(200))
  const sent = await rows()
  expect(sent.every((row) => row.licence_id !== null)).toBe(true)
  const arrived = receiver.requests
    .filter((request) => request.path === path)
    .map(({ headers, body }) => ({ id: String(headers['webhook-id']), body: body.toString() }))
  expect(new Map(arrived.map(({ id, body }) => [id, body]))).toEqual(
    new Map(sent.map(({ id, body }) => [id, body])),
  )
  expect(arrived).toHaveLength(200)
  // 32 deliveries are in flight at once, so an event can arrive at most 32 places early or late.
  const places = new Map(sent.map(({ id }, place) => [id, place]))
  arrived.forEach(({ id }, place) => expect(Math.abs(places.get(id)! - place)).toBeLessThanOrEqual(32))
})

test('delivered and pending events are not recovered; failed ones are, each time they have failed', async () => {
  const notifier = vendor()
  const { id } = await notifier.register(receiver.url())
  await notifier.happen(3)
  await settled(notifier, id, 3)
  expect(await recover(notifier, id)).toBe(0)
  const rows = await notifier.deliveries({ endpointId: id })
  await notifier.sql`update deliveries set status = 'failed' where id = ${rows[0]!.id}`
  await notifier.sql`
    update deliveries set status = 'pending', due_at = now() + interval '1 hour', retry_at = now() + interval '1 hour'
    where id = ${rows[1]!.id}`
  expect(await recover(notifier, id)).toBe(1)
  await settled(notifier, id, 2)
  const [fresh] = await notifier.deliveries({ endpointId: id })
  expect(fresh!.eventId).toBe(rows[0]!.eventId)
  await notifier.sql`update deliveries set status = 'failed' where id = ${fresh!.id}`
  expect(await recover(notifier, id)).toBe(1)
  await settled(notifier, id, 2)
})

test('a recovery covers events created from its start on and before its end', async () => {
  const notifier = vendor()
  const now = Date.now()
  const times = [now - 5_000, now - 4_000, now - 3_000]
  const events = times.map((ms) => givenLicenceEvent(notifier.of, 'licenceSuspended', new Date(ms)))
  await recorded(notifier, events)
  const { id } = await notifier.register(receiver.url())
  const count = (since: number, until?: number) =>
    recover(notifier, id, { since: at(since), ...(until !== undefined && { until: at(until) }) })
  expect(await count(0, times[0])).toBe(0)
  expect(await count(times[1]!, times[2])).toBe(1)
  const deliveries = await notifier.deliveries({ endpointId: id })
  expect(deliveries.map(({ eventId }) => eventId)).toEqual([events[1]!.id])
  expect(await count(times[1]!)).toBe(1)
  await expect(count(now, now)).rejects.toMatchObject({ code: 'validation_failed' })
  await expect(count(now + dayMs)).rejects.toMatchObject({ code: 'validation_failed' })
})

test('a recovery covers only requested types that the endpoint is subscribed to', async () => {
  const notifier = vendor()
  const types = ['licenceSuspended', 'licenceRetired', 'licenceSuspended', 'licenceRetired'] as const
  await recorded(
    notifier,
    types.map((type) => givenLicenceEvent(notifier.of, type)),
  )
  const narrow = await notifier.register(receiver.url(), 'licence.retired,licence.revoked')
  expect(await recover(notifier, narrow.id, { types: ['licence.suspended'] })).toBe(0)
  expect(await recover(notifier, narrow.id)).toBe(2)
  const wide = await notifier.register(receiver.url())
  expect(await recover(notifier, wide.id, { types: ['licence.suspended', 'licence.revoked'] })).toBe(2)
  expect(await recover(notifier, wide.id)).toBe(2)
  const unknown = recover(notifier, wide.id, { types: ['licence.suspended', 'licence.frozen'] })
  await expect(unknown).rejects.toMatchObject({ code: 'validation_failed' })
  await notifier.calls.deleteEndpoint({ ...notifier.of, endpointId: wide.id })
  await expect(recover(notifier, wide.id)).rejects.toMatchObject({ code: 'conflict' })
})

test('a recovery covers only test events that were sent to the endpoint', async () => {
  const notifier = vendor()
  const one = await notifier.register(receiver.url())
  const other = await notifier.register(receiver.url())
  await notifier.calls.sendTestEvent({ ...notifier.of, endpointId: one.id })
  await settled(notifier, one.id, 1)
  expect(await recover(notifier, other.id)).toBe(0)
  await notifier.sql`update deliveries set status = 'failed' where endpoint_id = ${one.id}`
  expect(await recover(notifier, other.id)).toBe(0)
  expect(await recover(notifier, one.id)).toBe(1)
})

test('events of another application or account, or past retention, are not recovered', async () => {
  const notifier = vendor()
  const elsewhere = { ...notifier.of, applicationId: newId('app') }
  await recorded(notifier, [givenLicenceEvent(elsewhere), givenLicenceEvent(notifier.of)])
  const { id } = await notifier.register(receiver.url())
  for (const of of [{ accountId: newId('acct') }, elsewhere]) {
    await expect(recover(notifier, id, of)).rejects.toMatchObject({ code: 'not_found' })
  }
  const since = at(notifier.clock.now().getTime() - dayMs)
  notifier.clock.advance(91 * dayMs)
  await keepPartitions(notifier.sql, new Date(), log)
  expect(await recover(notifier, id, { since })).toBe(0)
  notifier.clock.advance(-91 * dayMs)
  expect(await recover(notifier, id, { since })).toBe(1)
})
