import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { expect, test } from 'vitest'
import { expectExactCounts } from '../../test/counts.ts'
import { startTestNotifier } from '../../test/notifier.ts'
import type { TestProcesses } from '../../test/processes.ts'
import { startProcesses } from '../../test/processes.ts'

// Of one notifier to one endpoint: 32 deliveries in flight, and 32 that were answered but are not recorded yet.
const maxUnrecorded = 64

/** How often each event arrived at each path. */
function arrivals(receiver: HttpsReceiver): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { path, headers } of receiver.requests) {
    const key = `${path} ${String(headers['webhook-id'])}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}

const duplicatesOf = (receiver: HttpsReceiver) => receiver.requests.length - arrivals(receiver).size

async function expectWhole(notifiers: TestProcesses, receiver: HttpsReceiver, deliveries: number) {
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(deliveries), {
    timeoutMs: 120_000,
    intervalMs: 200,
  })
  expect(arrivals(receiver).size).toBe(deliveries)
  const [sequences] = await notifiers.sql<{ count: number; last: number }[]>`
    select count(*)::int as count, max(sequence)::int as last from events`
  expect(sequences!.last).toBe(sequences!.count)
  const [open] = await notifiers.sql<{ count: number }[]>`
    select count(*)::int as count from deliveries where due_at is not null or claim_id is not null`
  expect(open!.count).toBe(0)
  await expectExactCounts(notifiers.sql)
}

test('when one of two notifiers is killed, the other sends its deliveries, and only attempts in flight are repeated', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 100 })
  await using notifiers = await startProcesses({ receiver })
  const paths = ['/a', '/b', '/c', '/d']
  for (const path of paths) await notifiers.register(receiver.url(path))
  await notifiers.happen(200)
  await receiver.received(300)
  await notifiers.processes[1]!.kill()
  await notifiers.happen(100)
  await expectWhole(notifiers, receiver, 1_200)
  expect(duplicatesOf(receiver)).toBeLessThanOrEqual(paths.length * maxUnrecorded)
})

test('notifiers that are killed repeatedly lose no event and no delivery', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 10 })
  await using notifiers = await startProcesses({ receiver })
  await notifiers.register(receiver.url('/a'))
  await notifiers.register(receiver.url('/b'))
  let published = 0
  for (let round = 0; round < 4; round += 1) {
    const process = notifiers.processes[round % 2]!
    const before = receiver.requests.length
    const publishing = notifiers.happen(100)
    // In each round the notifiers are killed sooner: while they consume, record or send events, or record attempts.
    await eventually(() => receiver.requests.length > before + 80 / (round + 1), { intervalMs: 1 })
    await process.kill()
    await publishing
    published += 100
    await process.start()
  }
  await expectWhole(notifiers, receiver, published * 2)
  expect(published).toBe(400)
})

test('a notifier that is stopped finishes its attempts: nothing is sent twice, and nothing waits for a lease', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 50 })
  await using notifiers = await startProcesses({ receiver })
  for (const path of ['/a', '/b', '/c']) await notifiers.register(receiver.url(path))
  await notifiers.happen(250)
  await receiver.received(100)
  expect(await notifiers.processes[1]!.stop()).toBe('exit code 0')
  const stoppedAt = Date.now()
  await expectWhole(notifiers, receiver, 750)
  expect(duplicatesOf(receiver)).toBe(0)
  expect(Date.now() - stoppedAt).toBeLessThan(12_000)
})

test('a notifier that was suspended for longer than its leases causes no error when it continues', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 50 })
  await using notifiers = await startProcesses({ receiver })
  await notifiers.register(receiver.url('/a'))
  await notifiers.happen(200)
  await receiver.received(50)
  const frozen = notifiers.processes[1]!
  frozen.freeze()
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(200))
  frozen.resume()
  await notifiers.happen(50)
  await expectWhole(notifiers, receiver, 250)
  expect(duplicatesOf(receiver)).toBeLessThanOrEqual(maxUnrecorded)
})

test('while PostgreSQL is unavailable, attempts stay in memory, and their deliveries are not sent again', async () => {
  await using postgres = await startOwnPostgres()
  await using receiver = await startHttpsReceiver({ delayMs: 300 })
  await using notifiers = await startProcesses({ receiver, count: 1, databaseServerUrl: postgres.url() })
  await notifiers.register(receiver.url('/a'))
  await notifiers.happen(100)
  await receiver.received(30)
  await postgres.stop()
  await postgres.start()
  await notifiers.happen(20)
  await expectWhole(notifiers, receiver, 120)
  expect(duplicatesOf(receiver)).toBe(0)
})

test('while NATS is unavailable, recorded events are sent, and later events are not missed', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifiers = await startProcesses({ receiver, count: 1 })
  const endpointId = await notifiers.register(receiver.url('/a'))
  await notifiers.happen(10)
  await receiver.received(10)
  await notifiers.natsServer.stop()
  await notifiers.calls.sendTestEvent({ ...notifiers.of, endpointId })
  await receiver.received(11)
  await notifiers.natsServer.start()
  await notifiers.nats.whenConnected(AbortSignal.timeout(60_000))
  await notifiers.happen(10)
  await expectWhole(notifiers, receiver, 21)
  expect(duplicatesOf(receiver)).toBe(0)
})

test('when the clock is set forward or back, nothing is lost and nothing is sent twice', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 20 })
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  const hour = 3_600_000
  for (const jumpMs of [6 * hour, -12 * hour, 7 * 24 * hour, -6 * 24 * hour]) {
    await notifier.happen(100)
    await receiver.received(receiver.requests.length + 10)
    notifier.clock.advance(jumpMs)
  }
  await eventually(async () => {
    const rows = await notifier.sql`select 1 from deliveries where status = 'delivered'`
    expect(rows).toHaveLength(400)
  })
  expect(receiver.requests).toHaveLength(400)
  const { envelopes } = await notifier.calls.listEvents({
    accountId: notifier.of.accountId,
    after: 200n,
    limit: 200,
  })
  expect(envelopes).toHaveLength(200)
})
