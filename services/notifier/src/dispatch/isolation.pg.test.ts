import { fullTest } from '@licensing/test-support/drawn'
import { failWrites } from '@licensing/test-support/failing-writes'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver, ReceivedRequest } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'

/** Waits until a path has received `count` requests, and returns them. */
function receivedAt(receiver: HttpsReceiver, path: string, count: number): Promise<ReceivedRequest[]> {
  return eventually(
    () => {
      const requests = receiver.requests.filter((request) => request.path === path)
      if (requests.length < count) throw new Error(`${requests.length} of ${count} requests came to ${path}`)
      return requests
    },
    { intervalMs: 5 },
  )
}

fullTest('endpoints that never answer do not delay others', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(({ path }) => (path === '/well' ? {} : 'hang'))
  await using notifier = await startTestNotifier({ slots: 40 })
  for (let i = 0; i < 12; i += 1) await notifier.register(receiver.url(`/dead/${i}`))
  await notifier.register(receiver.url('/well'))
  // Enough deliveries to take every slot, if dead endpoints could.
  await notifier.happen(20)
  await receivedAt(receiver, '/well', 20)
  for (let i = 21; i <= 40; i += 1) {
    const sentAt = Date.now()
    await notifier.happen()
    const requests = await receivedAt(receiver, '/well', i)
    // A delivery that waits for a dead endpoint takes at least a timeout.
    expect(requests.at(-1)!.arrivedAt - sentAt).toBeLessThan(4_900)
  }
  const timedOut = () => notifier.sql<{ duration_ms: number }[]>`
    select duration_ms from attempts where error = 'timeout: no answer within 5 seconds'`
  const [first] = await eventually(async () => {
    const attempts = await timedOut()
    expect(attempts).not.toHaveLength(0)
    return attempts
  })
  expect(first!.duration_ms).toBeGreaterThanOrEqual(4_900)
  await receiver.pause()
})

fullTest(
  'an endpoint receives more deliveries than its queue can contain, each once, 2 at a time at first and at most 32',
  async () => {
    let inFlight = 0
    const seen: number[] = []
    await using receiver = await startHttpsReceiver()
    receiver.answerWith(() => {
      inFlight += 1
      seen.push(inFlight)
      setTimeout(() => (inFlight -= 1), 100)
      return { delayMs: 100 }
    })
    await using notifier = await startTestNotifier({ slots: 200 })
    await notifier.register(receiver.url())
    // After answers of 100 ms the queue has 20 places for each of the 32 in flight.
    await notifier.happen(1_000)
    await receiver.received(1_000)
    expect(Math.max(...seen.slice(0, 2))).toBeLessThanOrEqual(2)
    expect(Math.max(...seen)).toBeLessThanOrEqual(32)
    expect(Math.max(...seen)).toBeGreaterThan(24)
    const delivered = () => notifier.sql`select 1 from deliveries where status = 'delivered'`
    await eventually(async () => expect(await delivered()).toHaveLength(1_000))
    expect(receiver.requests).toHaveLength(1_000)
  },
)

test('when an endpoint answers again, its retries do not delay new events of others', async () => {
  await using receiver = await startHttpsReceiver()
  let isBack = false
  receiver.answerWith(({ path }) => (path === '/well' ? {} : isBack ? { delayMs: 300 } : { status: 500 }))
  await using notifier = await startTestNotifier({ slots: 40 })
  const { id } = await notifier.register(receiver.url('/back'))
  await notifier.happen(500)
  const failed = () => notifier.sql`select 1 from deliveries where attempt_count = 1`
  await eventually(async () => expect(await failed()).toHaveLength(500))
  await notifier.register(receiver.url('/well'))
  isBack = true
  notifier.clock.advance(60_000)
  await receivedAt(receiver, '/back', 505)
  for (let i = 1; i <= 10; i += 1) {
    await notifier.happen()
    await receivedAt(receiver, '/well', i)
  }
  expect(await notifier.deliveries({ endpointId: id, status: 'pending' })).not.toEqual([])
})

fullTest(
  'on a full disk the results of attempts and new events wait: no attempt is repeated and no event becomes a dead letter',
  async () => {
    await using receiver = await startHttpsReceiver()
    await using notifier = await startTestNotifier()
    const { sql } = notifier
    await notifier.register(receiver.url())
    const attempts = await failWrites(sql, 'attempts', '53100')
    await notifier.happen(3)
    await receiver.received(3)
    // A result that the database refuses is dropped at its third try, an event at its fifth.
    await eventually(async () => expect(await attempts.refused()).toBeGreaterThan(3))
    const events = await failWrites(sql, 'events', '53200')
    await notifier.happen(3)
    await eventually(async () => expect(await events.refused()).toBeGreaterThan(5))
    expect(await sql`select 1 from attempts`).toHaveLength(0)
    await events.end()
    await attempts.end()
    await eventually(async () =>
      expect(
        await sql`select 1 from deliveries where status = 'delivered' and attempt_count = 1`,
      ).toHaveLength(6),
    )
    expect(receiver.requests).toHaveLength(6)
    expect(await sql`select 1 from dead_letters`).toHaveLength(0)
  },
)
