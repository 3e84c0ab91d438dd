import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { connectTo } from '@licensing/grpc/client'
import { NotifierService } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenPastEvents } from '../../test/past-events.ts'
import { startProcesses } from '../../test/processes.ts'

const manyEvents = Number(process.env['MANY_EVENTS'] ?? 1_200)
const since = timestampFromDate(new Date(Date.now() - 24 * 3_600_000))

test('a recovery that is killed creates all deliveries or none; after its repetition each event arrives once, and other endpoints do not wait', async () => {
  await using receiver = await startHttpsReceiver()
  const recoverSlowly = (delayMs: number) =>
    receiver.answerWith(({ path }) => ({ delayMs: path === '/recovered' ? delayMs : 0 }))
  recoverSlowly(1_000)
  await using notifiers = await startProcesses({ receiver })
  const [, killed] = notifiers.processes
  await givenPastEvents(notifiers.sql, notifiers.of, manyEvents)
  const endpointId = await notifiers.register(receiver.url('/recovered'))
  const request = { ...notifiers.of, endpointId, since }
  const channel = connectTo(NotifierService, killed!.environment['GRPC_ADDRESS']!)
  const first = channel.calls.recoverEndpoint(request, { timeoutMs: 20_000 }).then(
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
  await killed!.kill()
  const created = await first
  channel.close()
  const repeat = async () =>
    Number((await notifiers.calls.recoverEndpoint(request, { timeoutMs: 60_000 })).deliveries)
  const repeated = await repeat()
  expect([0, manyEvents]).toContain(repeated)
  if (created !== 'lost') expect(created + repeated).toBe(manyEvents)

  // The recovery takes longer than the deliveries to the other endpoint: some 35 s, 32 deliveries at a time.
  const arrived = (path: string) => receiver.requests.filter((each) => each.path === path)
  await eventually(() => expect(arrived('/recovered').length).toBeGreaterThan(0))
  await notifiers.register(receiver.url('/other'))
  const askedAt = Date.now()
  await notifiers.happen(50)
  await eventually(() => expect(arrived('/other')).toHaveLength(50))
  const isStillSending = arrived('/recovered').length < manyEvents
  recoverSlowly(0)
  expect(isStillSending).toBe(true)
  const slowest = Math.max(...arrived('/other').map(({ arrivedAt }) => arrivedAt - askedAt))
  expect(slowest).toBeLessThan(15_000)

  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(manyEvents + 100), {
    timeoutMs: 120_000,
    intervalMs: 200,
  })
  const ids = arrived('/recovered').map(({ headers }) => headers['webhook-id'])
  expect(new Set(ids).size).toBe(manyEvents + 50)
  // The killed notifier has 32 deliveries in flight, and 32 that were answered but are not recorded yet.
  expect(ids.length - new Set(ids).size).toBeLessThanOrEqual(64)
  expect(await repeat()).toBe(0)
  const twins = await notifiers.sql`
    select event_id from deliveries group by endpoint_id, event_id having count(*) > 1 limit 1`
  expect(twins).toHaveLength(0)
})
