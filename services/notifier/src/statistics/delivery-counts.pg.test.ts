import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Event } from '@licensing/proto/events'
import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { givenEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { startTestNotifier } from '../../test/notifier.ts'

const dayMs = 86_400_000

async function metrics(notifier: TestNotifier, step: string, of: object = notifier.of) {
  const now = notifier.clock.now().getTime()
  const from = Math.floor(now / dayMs) * dayMs - 2 * dayMs
  const { points } = await notifier.calls.getDeliveryMetrics({
    ...notifier.of,
    ...of,
    step,
    from: timestampFromDate(new Date(from)),
    to: timestampFromDate(new Date(from + 4 * dayMs)),
  })
  return points.map(({ at, delivered, failedAttempts, p50Ms, p95Ms }) => ({
    at: timestampDate(at!).toISOString(),
    delivered: Number(delivered),
    failedAttempts: Number(failedAttempts),
    p50: p50Ms === undefined ? null : Number(p50Ms),
    p95: p95Ms === undefined ? null : Number(p95Ms),
  }))
}

async function counted(notifier: TestNotifier, expected: { delivered: number; failedAttempts: number }) {
  return eventually(async () => {
    const points = await metrics(notifier, 'day')
    expect(points.reduce((sum, point) => sum + point.delivered, 0)).toBe(expected.delivered)
    expect(points.reduce((sum, point) => sum + point.failedAttempts, 0)).toBe(expected.failedAttempts)
    return points
  })
}

/** Events of licences that were suspended `agoMs` ago by the clock of licensing. */
const suspended = (notifier: TestNotifier, count: number, agoMs: number): Event[] =>
  Array.from({ length: count }, () =>
    givenEvent({
      ...notifier.of,
      occurredAt: new Date(notifier.clock.now().getTime() - agoMs),
      payload: { case: 'licenceSuspended', value: { licenceId: newId('lic'), status: 'suspended' } },
    }),
  )

test('each delivered event and each failed attempt is counted once, by day and by hour', async () => {
  await awaitTurn('hour')
  await using receiver = await startHttpsReceiver()
  const tries = new Map<string, number>()
  receiver.answerWith(({ headers }) => {
    const id = String(headers['webhook-id'])
    tries.set(id, (tries.get(id) ?? 0) + 1)
    return { status: tries.get(id)! < 3 ? 500 : 200 }
  })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [0.05] })
  await notifier.register(receiver.url('/a'))
  await notifier.register(receiver.url('/b'))
  await notifier.happen(50)
  // Each event makes four requests to both endpoints together, and the first two fail.
  await eventually(async () => expect(await notifier.deliveries({ status: 'delivered' })).toHaveLength(100))
  const [point, ...others] = await counted(notifier, { delivered: 100, failedAttempts: 100 })
  expect(others).toEqual([])
  const [hour] = await metrics(notifier, 'hour')
  expect(hour).toMatchObject({ delivered: 100, failedAttempts: 100, p50: point!.p50, p95: point!.p95 })
  expect(new Date(hour!.at).getTime() % 3_600_000).toBe(0)
  expect(new Date(point!.at).getTime() % dayMs).toBe(0)
  expect(await notifier.sql`select 1 from delivery_count_changes`).toHaveLength(0)
})

test('latency is measured from the time of the event to its first success, to within 10 %', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  // Of 20 events 14 waited ten minutes for the notifier and 6 waited two hours.
  await publish(notifier, [...suspended(notifier, 14, 600_000), ...suspended(notifier, 6, 7_200_000)])
  const [point] = await counted(notifier, { delivered: 20, failedAttempts: 0 })
  expect(Math.abs(point!.p50! - 600_500) / 600_500).toBeLessThan(0.1)
  expect(Math.abs(point!.p95! - 7_200_500) / 7_200_500).toBeLessThan(0.1)
})

test('an hour without a success has no latencies', async () => {
  await using receiver = await startHttpsReceiver({ status: 503 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  await notifier.register(receiver.url())
  await notifier.happen(3)
  const [point] = await counted(notifier, { delivered: 0, failedAttempts: 3 })
  expect(point).toMatchObject({ p50: null, p95: null })
})

test('an attempt is counted in the UTC day in which it ends', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [0.01] })
  const now = notifier.clock.now().getTime()
  const midnight = Math.ceil(now / dayMs) * dayMs
  notifier.clock.advance(midnight - now - 3_600_000)
  await notifier.register(receiver.url())
  await notifier.happen(5)
  await counted(notifier, { delivered: 5, failedAttempts: 0 })
  notifier.clock.advance(3_600_000)
  await notifier.happen(7)
  const days = await counted(notifier, { delivered: 12, failedAttempts: 0 })
  const at = (ms: number) => new Date(midnight + ms).toISOString()
  expect(days.map((day) => [day.at, day.delivered])).toEqual([
    [at(-dayMs), 5],
    [at(0), 7],
  ])
  const hours = await metrics(notifier, 'hour')
  expect(hours.map((hour) => [hour.at, hour.delivered])).toEqual([
    [at(-3_600_000), 5],
    [at(0), 7],
  ])
})

test('replays and recovered deliveries are not counted', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  await notifier.register(receiver.url('/first'))
  await notifier.happen(4)
  await counted(notifier, { delivered: 4, failedAttempts: 0 })
  const [delivery] = await notifier.deliveries()
  const second = await notifier.register(receiver.url('/second'))
  receiver.answerWith(() => ({ status: 500 }))
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: delivery!.id })
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: delivery!.id, endpointId: second.id })
  await receiver.received(6)
  receiver.answerWith(() => ({ status: 200 }))
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: delivery!.id })
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: delivery!.id, endpointId: second.id })
  const since = timestampFromDate(new Date(notifier.clock.now().getTime() - dayMs))
  await notifier.calls.recoverEndpoint({ ...notifier.of, endpointId: second.id, since })
  await eventually(async () =>
    expect(await notifier.deliveries({ endpointId: second.id, status: 'delivered' })).toHaveLength(4),
  )
  // This event is recorded last: when it is counted, all earlier attempts would have been counted.
  await notifier.happen(1)
  await counted(notifier, { delivered: 6, failedAttempts: 0 })
})

test('a successful replay of a pending delivery is not counted as delivered', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  await notifier.register(receiver.url())
  await notifier.happen(1)
  await counted(notifier, { delivered: 0, failedAttempts: 1 })
  receiver.answerWith(() => ({ status: 200 }))
  const [delivery] = await notifier.deliveries()
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: delivery!.id })
  await eventually(async () => expect(await notifier.deliveries({ status: 'delivered' })).toHaveLength(1))
  await notifier.happen(1)
  await counted(notifier, { delivered: 1, failedAttempts: 1 })
})

test('another account or application has no counts, and an unknown step is refused', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen(1)
  await counted(notifier, { delivered: 1, failedAttempts: 0 })
  expect(await metrics(notifier, 'day', { accountId: newId('acct') })).toEqual([])
  expect(await metrics(notifier, 'day', { applicationId: newId('app') })).toEqual([])
  await expect(metrics(notifier, 'week')).rejects.toMatchObject({ code: 'validation_failed' })
})
