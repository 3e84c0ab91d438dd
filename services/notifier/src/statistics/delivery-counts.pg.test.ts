import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { givenLicenceEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { notifierOfFile } from '../../test/notifier.ts'
import { updateStatistics } from './update-statistics.ts'

const dayMs = 86_400_000

const vendor = notifierOfFile({ backoffSeconds: [600] })
const impatientVendor = notifierOfFile({ backoffSeconds: [0.05] })

async function metrics(notifier: TestNotifier, step: string, of: object = notifier.of) {
  const now = notifier.clock.now().getTime()
  // From the start of yesterday, which is a point itself, to the end of today.
  const from = Math.floor(now / dayMs) * dayMs - dayMs
  const { points } = await notifier.calls.getDeliveryMetrics({
    ...notifier.of,
    ...of,
    step,
    from: timestampFromDate(new Date(from)),
    to: timestampFromDate(new Date(from + 2 * dayMs)),
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
    // The notifier does this every second.
    await updateStatistics({ sql: notifier.sql, alertQueued: () => {} })
    const points = await metrics(notifier, 'day')
    expect(points.reduce((sum, point) => sum + point.delivered, 0)).toBe(expected.delivered)
    expect(points.reduce((sum, point) => sum + point.failedAttempts, 0)).toBe(expected.failedAttempts)
    return points
  })
}

test('each delivered event and each failed attempt is counted once, by day and by hour', async () => {
  await awaitTurn('hour')
  await using receiver = await startHttpsReceiver()
  const tries = new Map<string, number>()
  receiver.answerWith(({ headers }) => {
    const id = String(headers['webhook-id'])
    tries.set(id, (tries.get(id) ?? 0) + 1)
    return { status: tries.get(id)! < 3 ? 500 : 200 }
  })
  const notifier = impatientVendor()
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
  const notifier = vendor()
  await notifier.register(receiver.url())
  /** Events that waited for the notifier. */
  const waiting = (count: number, ms: number) =>
    Array.from({ length: count }, () =>
      givenLicenceEvent(notifier.of, 'licenceSuspended', new Date(notifier.clock.now().getTime() - ms)),
    )
  await publish(notifier, [...waiting(14, 600_000), ...waiting(6, 7_200_000)])
  const [point] = await counted(notifier, { delivered: 20, failedAttempts: 0 })
  expect(Math.abs(point!.p50! - 600_500) / 600_500).toBeLessThan(0.1)
  expect(Math.abs(point!.p95! - 7_200_500) / 7_200_500).toBeLessThan(0.1)

  expect(await metrics(notifier, 'day', { accountId: newId('acct') })).toEqual([])
  expect(await metrics(notifier, 'day', { applicationId: newId('app') })).toEqual([])
  await expect(metrics(notifier, 'week')).rejects.toMatchObject({ code: 'validation_failed' })
})

test('replays and recovered deliveries are not counted, and without a success there are no latencies', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = vendor()
  const replay = (deliveryId: string, endpointId?: string) =>
    notifier.calls.replayDelivery({ ...notifier.of, deliveryId, ...(endpointId && { endpointId }) })
  await notifier.register(receiver.url('/first'))
  receiver.answerWith({ status: 500 })
  await notifier.happen(1)
  const [point] = await counted(notifier, { delivered: 0, failedAttempts: 1 })
  expect(point).toMatchObject({ p50: null, p95: null })
  receiver.answerWith({ status: 200 })
  await replay((await notifier.deliveries())[0]!.id)
  await notifier.delivery({ status: 'delivered', attemptCount: 2 })

  await notifier.happen(4)
  await counted(notifier, { delivered: 4, failedAttempts: 1 })
  const [delivery] = await notifier.deliveries()
  const second = await notifier.register(receiver.url('/second'))
  for (const status of [500, 200]) {
    receiver.answerWith({ status })
    const before = receiver.requests.length
    await replay(delivery!.id)
    await replay(delivery!.id, second.id)
    await receiver.received(before + 2)
  }
  const since = timestampFromDate(new Date(notifier.clock.now().getTime() - dayMs))
  await notifier.calls.recoverEndpoint({ ...notifier.of, endpointId: second.id, since })
  // Of five events, one was replayed successfully to the second endpoint, and the others are recovered.
  await eventually(async () =>
    expect(await notifier.deliveries({ endpointId: second.id, status: 'delivered' })).toHaveLength(5),
  )
  // This event is recorded last: when it is counted, all earlier attempts would have been counted.
  await notifier.happen(1)
  await counted(notifier, { delivered: 6, failedAttempts: 1 })
})

test('an attempt is counted in the UTC day in which it ends', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = vendor()
  const now = notifier.clock.now().getTime()
  const midnight = Math.ceil(now / dayMs) * dayMs
  notifier.clock.advance(midnight - now - 3_600_000)
  await notifier.register(receiver.url())
  await notifier.happen(5)
  await counted(notifier, { delivered: 5, failedAttempts: 0 })
  notifier.clock.advance(3_600_000)
  await notifier.happen(7)
  await counted(notifier, { delivered: 12, failedAttempts: 0 })
  const at = (ms: number) => new Date(midnight + ms).toISOString()
  for (const [step, before] of [
    ['day', -dayMs],
    ['hour', -3_600_000],
  ] as const) {
    const points = await metrics(notifier, step)
    expect(points.map((point) => [point.at, point.delivered])).toEqual([
      [at(before), 5],
      [at(0), 7],
    ])
  }
})
