import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { connectTo } from '@licensing/grpc/client'
import { NotifierService } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenPastEvents } from '../../test/past-events.ts'
import type { TestProcesses } from '../../test/processes.ts'
import { startProcesses } from '../../test/processes.ts'

const manyEvents = Number(process.env['MANY_EVENTS'] ?? 1_200)
// 32 deliveries in flight, and 32 that were answered but are not recorded yet.
const maxUnrecorded = 64

const since = timestampFromDate(new Date(Date.now() - 24 * 3_600_000))

function clientOf(notifiers: TestProcesses, index: number) {
  const channel = connectTo(NotifierService, notifiers.processes[index]!.environment['GRPC_ADDRESS']!)
  return { calls: channel.calls, [Symbol.dispose]: () => channel.close() }
}

test('each of many events arrives once, also if two notifiers recover at once and one is killed, and other endpoints do not wait', async () => {
  await using receiver = await startHttpsReceiver()
  const recoverSlowly = (delayMs: number) =>
    receiver.answerWith(({ path }) => ({ delayMs: path === '/recovered' ? delayMs : 0 }))
  recoverSlowly(60)
  await using notifiers = await startProcesses({ receiver })
  using second = clientOf(notifiers, 1)
  await givenPastEvents(notifiers.sql, notifiers.of, manyEvents)
  const endpointId = await notifiers.register(receiver.url('/recovered'))
  const request = { ...notifiers.of, endpointId, since }
  const counts = await Promise.all([
    notifiers.calls.recoverEndpoint(request, { timeoutMs: 60_000 }),
    second.calls.recoverEndpoint(request, { timeoutMs: 60_000 }),
  ])
  expect(counts.map(({ deliveries }) => Number(deliveries)).toSorted((a, b) => a - b)).toEqual([
    0,
    manyEvents,
  ])
  const arrived = (path: string) => receiver.requests.filter((each) => each.path === path)
  await eventually(() => expect(arrived('/recovered').length).toBeGreaterThan(manyEvents / 5), {
    timeoutMs: 60_000,
  })
  await notifiers.processes[1]!.kill()

  // The rest of the recovery takes longer than the deliveries to the other endpoint.
  recoverSlowly(1_000)
  await notifiers.register(receiver.url('/other'))
  const askedAt = Date.now()
  await notifiers.happen(50)
  await eventually(() => expect(arrived('/other')).toHaveLength(50))
  const isStillSending = arrived('/recovered').length < manyEvents
  recoverSlowly(0)
  const slowest = Math.max(...arrived('/other').map(({ arrivedAt }) => arrivedAt - askedAt))
  // The rest of the recovery takes some 30 s at this delay: 960 at 1 s each, 32 at a time.
  expect(isStillSending).toBe(true)
  expect(slowest).toBeLessThan(15_000)

  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(manyEvents + 100), {
    timeoutMs: 120_000,
    intervalMs: 200,
  })
  const ids = arrived('/recovered').map(({ headers }) => String(headers['webhook-id']))
  expect(new Set(ids).size).toBe(manyEvents + 50)
  expect(ids.length - new Set(ids).size).toBeLessThanOrEqual(maxUnrecorded)
  expect(Number((await notifiers.calls.recoverEndpoint(request)).deliveries)).toBe(0)
})

test('one notifier sends recovered events in order of sequence', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifiers = await startProcesses({ receiver, count: 1 })
  await givenPastEvents(notifiers.sql, notifiers.of, 1_000)
  const endpointId = await notifiers.register(receiver.url())
  await notifiers.calls.recoverEndpoint({ ...notifiers.of, endpointId, since })
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(1_000), {
    timeoutMs: 60_000,
    intervalMs: 200,
  })
  const startedAt = await notifiers.sql<{ at: Date }[]>`
    select a.at from deliveries d join attempts a on a.delivery_id = d.id and a.attempt = 1 order by d.sequence`
  const times = startedAt.map(({ at }) => at.getTime())
  expect(times).toHaveLength(1_000)
  expect(times).toEqual(times.toSorted((a, b) => a - b))
})

test('a recovery that is killed creates all deliveries or none, and can be repeated', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifiers = await startProcesses({ receiver })
  using second = clientOf(notifiers, 1)
  await givenPastEvents(notifiers.sql, notifiers.of, manyEvents)
  const endpointId = await notifiers.register(receiver.url())
  const request = { ...notifiers.of, endpointId, since }
  const call = second.calls.recoverEndpoint(request, { timeoutMs: 20_000 }).then(
    ({ deliveries }) => Number(deliveries),
    () => 'lost' as const,
  )
  // The process is killed at any point of its transaction.
  await eventually(
    async () => {
      const locks =
        await notifiers.sql`select 1 from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())
        and (classid, objid) not in (select 0::oid, lock::oid from generate_series(7162000, 7162300) as lock)`
      expect(locks.length).toBeGreaterThan(0)
    },
    { intervalMs: 1 },
  )
  await notifiers.processes[1]!.kill()
  const first = await call
  const repeated = Number((await notifiers.calls.recoverEndpoint(request, { timeoutMs: 60_000 })).deliveries)
  expect([0, manyEvents]).toContain(repeated)
  if (first !== 'lost') expect(first + repeated).toBe(manyEvents)
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(manyEvents), {
    timeoutMs: 120_000,
    intervalMs: 200,
  })
  const twins = await notifiers.sql`
    select event_id from deliveries group by endpoint_id, event_id having count(*) > 1 limit 1`
  expect(twins).toHaveLength(0)
})
