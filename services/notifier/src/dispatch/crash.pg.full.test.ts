import type { Database } from '@licensing/database/connect'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'
import type { TestProcesses } from '../../test/processes.ts'
import { startProcesses } from '../../test/processes.ts'

// One notifier has, for one endpoint, 32 deliveries in flight, and 32 that were answered but are not recorded yet.
const maxUnrecorded = 64

/** Expects that the counts of applications and endpoints equal the deliveries and attempts. Only for tests without replays. */
async function expectExactCounts(sql: Database): Promise<void> {
  await eventually(
    async () => {
      const [written] = await sql<{ delivered: number; failed: number }[]>`
        select (select count(*)::int from deliveries where status = 'delivered') as delivered,
          (select count(*)::int from attempts where response_code is null or response_code not between 200 and 299)
            as failed`
      for (const step of ['day', 'hour']) {
        const [counted] = await sql<{ delivered: number; failed: number; timed: number }[]>`
          select coalesce(sum(delivered), 0)::int as delivered, coalesce(sum(failed_attempts), 0)::int as failed,
            coalesce(sum((select sum(entry) from unnest(latency_counts) as entry)), 0)::int as timed
          from delivery_counts where step = ${step}`
        expect(counted).toEqual({ ...written, timed: written!.delivered })
      }
      const pending = await sql`
        select e.id, coalesce(h.pending, 0)::int - (
          select count(*)::int from deliveries d where d.endpoint_id = e.id and d.status = 'pending'
        ) as difference
        from endpoints e left join endpoint_health h on h.endpoint_id = e.id where e.status = 'enabled'`
      expect(pending.filter(({ difference }) => difference !== 0)).toEqual([])
    },
    { intervalMs: 200 },
  )
}

const delivered = (notifiers: TestProcesses, count: number) =>
  eventually(async () => expect(await notifiers.countOf('delivered')).toBe(count), {
    timeoutMs: 120_000,
    intervalMs: 200,
  })

/** Expects that each event arrived at each path, and that nothing is left to do. @returns how many requests were repeated */
async function expectWhole(notifiers: TestProcesses, receiver: HttpsReceiver, deliveries: number) {
  await delivered(notifiers, deliveries)
  const arrived = new Set(
    receiver.requests.map(({ path, headers }) => `${path} ${String(headers['webhook-id'])}`),
  )
  expect(arrived.size).toBe(deliveries)
  const [sequences] = await notifiers.sql<{ count: number; last: number }[]>`
    select count(*)::int as count, max(sequence)::int as last from events`
  expect(sequences!.last).toBe(sequences!.count)
  const open = await notifiers.sql`select 1 from deliveries where due_at is not null or claim_id is not null`
  expect(open).toHaveLength(0)
  await expectExactCounts(notifiers.sql)
  return receiver.requests.length - arrived.size
}

test('when notifiers are killed or suspended, another one sends their deliveries, and only attempts in flight are repeated', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 100 })
  await using notifiers = await startProcesses({ receiver, count: 3 })
  const paths = ['/a', '/b', '/c', '/d']
  for (const path of paths) await notifiers.register(receiver.url(path))
  const [, killed, suspended] = notifiers.processes
  await notifiers.happen(200)
  await receiver.received(300)
  await killed!.kill()
  suspended!.freeze()
  // The deliveries of both are sent when their leases end.
  await delivered(notifiers, 800)
  // A process that continues after its leases have ended causes no error.
  suspended!.resume()
  await notifiers.happen(100)
  const repeated = await expectWhole(notifiers, receiver, 1_200)
  expect(repeated).toBeLessThanOrEqual(2 * paths.length * maxUnrecorded)
})

test('a notifier that is stopped finishes its attempts: nothing is sent twice, and nothing waits for a lease', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 50 })
  await using notifiers = await startProcesses({ receiver })
  for (const path of ['/a', '/b', '/c']) await notifiers.register(receiver.url(path))
  await notifiers.happen(100)
  await receiver.received(100)
  expect(await notifiers.processes[1]!.stop()).toBe('exit code 0')
  const claims = await notifiers.sql`select distinct claim_id from deliveries where claim_id is not null`
  // The claims of the other notifier end with its attempts. A claim that nobody holds would end with its lease of 12 s.
  const open = () =>
    notifiers.sql`select 1 from deliveries where claim_id::text = any(${claims.map((row) => String(row['claim_id']))})`
  await eventually(async () => expect(await open()).toHaveLength(0), { timeoutMs: 5_000 })
  expect(await expectWhole(notifiers, receiver, 300)).toBe(0)
})

test('while NATS or PostgreSQL is unavailable, recorded events are sent, no event is missed, and nothing is sent twice', async () => {
  await using postgres = await startOwnPostgres()
  await using receiver = await startHttpsReceiver({ delayMs: 300 })
  await using notifiers = await startProcesses({ receiver, count: 1, databaseServerUrl: postgres.url() })
  const endpointId = await notifiers.register(receiver.url('/a'))
  await notifiers.happen(10)
  await receiver.received(10)
  await notifiers.natsServer.stop()
  await notifiers.calls.sendTestEvent({ ...notifiers.of, endpointId })
  await receiver.received(11)
  await notifiers.natsServer.start()

  await notifiers.happen(100)
  await receiver.received(40)
  // The results of the attempts in flight stay in memory, and their deliveries are not sent again.
  await postgres.stop()
  await postgres.start()
  await notifiers.happen(20)
  expect(await expectWhole(notifiers, receiver, 131)).toBe(0)
})

test('when the clock is set forward or back, nothing is lost and nothing is sent twice', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 20 })
  await using notifier = await startTestNotifier()
  await notifier.register(receiver.url())
  const hour = 3_600_000
  for (const jumpMs of [6 * hour, -12 * hour, 7 * 24 * hour, -6 * 24 * hour]) {
    await notifier.happen(50)
    await receiver.received(receiver.requests.length + 10)
    notifier.clock.advance(jumpMs)
  }
  await eventually(async () => {
    const rows = await notifier.sql`select 1 from deliveries where status = 'delivered'`
    expect(rows).toHaveLength(200)
  })
  expect(receiver.requests).toHaveLength(200)
  const { accountId } = notifier.of
  const { envelopes } = await notifier.calls.listEvents({ accountId, after: 100n, limit: 200 })
  expect(envelopes).toHaveLength(100)
})
