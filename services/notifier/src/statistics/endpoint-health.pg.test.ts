import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { EndpointHealth } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, startTestNotifier } from '../../test/notifier.ts'

async function healthOf(notifier: TestNotifier, endpointId: string): Promise<EndpointHealth> {
  return (await notifier.calls.getEndpoint({ ...notifier.of, endpointId })).health!
}

async function pendingOf(notifier: TestNotifier, endpointId: string, expected: number) {
  await eventually(async () => expect(Number((await healthOf(notifier, endpointId)).pending)).toBe(expected))
}

async function alertsOf(notifier: TestNotifier) {
  const { accountId } = notifier.of
  return (await notifier.calls.listAlerts({ accountId, ...firstPage })).alerts.toReversed()
}

test('a new endpoint has no pending delivery, and neither succeeded nor failed', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { id } = await notifier.register(receiver.url())
  expect(await healthOf(notifier, id)).toEqual({ $typeName: 'notifier.v1.EndpointHealth', pending: 0n })
})

test('health has the pending deliveries, the last success, the last failure and the start of the failures', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  const { id } = await notifier.register(receiver.url())
  const before = Date.now()
  await notifier.happen(1)
  await eventually(async () => expect((await healthOf(notifier, id)).lastSuccessAt).toBeDefined())
  const well = await healthOf(notifier, id)
  expect(well.failingSince).toBeUndefined()
  expect(well.lastFailureAt).toBeUndefined()
  expect(timestampDate(well.lastSuccessAt!).getTime()).toBeGreaterThanOrEqual(before)

  receiver.answerWith(() => ({ status: 500 }))
  await notifier.happen(1)
  await pendingOf(notifier, id, 1)
  await eventually(async () => expect((await healthOf(notifier, id)).failingSince).toBeDefined())
  const failing = await healthOf(notifier, id)
  expect(failing.failingSince).toEqual(failing.lastFailureAt)
  expect(failing.lastSuccessAt).toEqual(well.lastSuccessAt)
  await notifier.happen(2)
  await pendingOf(notifier, id, 3)
  await eventually(async () => {
    const [row] = await notifier.sql`select failures from endpoint_health where endpoint_id = ${id}`
    expect(row).toEqual({ failures: 3n })
  })
  const later = await healthOf(notifier, id)
  expect(later.lastFailureAt).not.toEqual(failing.lastFailureAt)
  expect(later.failingSince).toEqual(failing.failingSince)

  receiver.answerWith(() => ({ status: 200 }))
  await notifier.happen(1)
  await eventually(async () => expect((await healthOf(notifier, id)).failingSince).toBeUndefined())
  expect((await healthOf(notifier, id)).lastFailureAt).toEqual(later.lastFailureAt)
  await pendingOf(notifier, id, 3)
  for (const { id: deliveryId } of await notifier.deliveries({ status: 'pending' })) {
    await notifier.calls.replayDelivery({ ...notifier.of, deliveryId })
  }
  await pendingOf(notifier, id, 0)
})

test('deliveries with an expired payload or a deleted endpoint do not count as pending', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  const { id } = await notifier.register(receiver.url())
  await notifier.happen(5)
  await pendingOf(notifier, id, 5)
  await notifier.sql`delete from events where sequence = 1`
  notifier.clock.advance(600_000)
  await pendingOf(notifier, id, 4)
  const { endpoints } = await notifier.calls.listEndpoints({ ...notifier.of, ...firstPage })
  expect(endpoints[0]!.health).toMatchObject({ pending: 4n })
  await notifier.calls.deleteEndpoint({ ...notifier.of, endpointId: id })
  expect(Number((await healthOf(notifier, id)).pending)).toBe(0)
})

test('the sixth failure in a row makes one alert, and again only after a success', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  const { id } = await notifier.register(receiver.url())
  const fail = async (count: number) => {
    const before = receiver.requests.length
    await notifier.happen(count)
    await receiver.received(before + count)
  }
  const failuresOf = async (expected: number) =>
    eventually(async () => {
      const [row] = await notifier.sql`select failures from endpoint_health where endpoint_id = ${id}`
      expect(row).toEqual({ failures: BigInt(expected) })
    })
  await fail(5)
  await failuresOf(5)
  expect(await alertsOf(notifier)).toEqual([])
  await fail(1)
  const [alert] = await eventually(async () => {
    const alerts = await alertsOf(notifier)
    expect(alerts).toHaveLength(1)
    return alerts
  })
  expect(alert).toMatchObject({
    kind: 'endpoint_failing',
    applicationId: notifier.of.applicationId,
    endpointId: id,
  })
  expect(alert!.id).toMatch(/^alrt_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  expect(alert!.detail).toContain(id)
  const { failingSince } = await healthOf(notifier, id)
  expect(alert!.detail).toContain(timestampDate(failingSince!).toISOString())
  await fail(8)
  await failuresOf(14)
  expect(await alertsOf(notifier)).toHaveLength(1)

  receiver.answerWith(() => ({ status: 200 }))
  await fail(1)
  await failuresOf(0)
  receiver.answerWith(() => ({ status: 500 }))
  await fail(6)
  await eventually(async () => expect(await alertsOf(notifier)).toHaveLength(2))
})

test('failures with successes between them make no alert', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  const { id } = await notifier.register(receiver.url())
  for (const status of [500, 500, 500, 200, 500, 500, 500, 200]) {
    receiver.answerWith(() => ({ status }))
    const before = receiver.requests.length
    await notifier.happen(1)
    await receiver.received(before + 1)
  }
  await pendingOf(notifier, id, 6)
  await eventually(async () => expect((await healthOf(notifier, id)).failingSince).toBeUndefined())
  expect(await alertsOf(notifier)).toEqual([])
})

test('after 410 Gone the vendor is alerted at once, and not again at the sixth failure', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [600] })
  const { id } = await notifier.register(receiver.url())
  const fail = async (count: number) => {
    const before = receiver.requests.length
    await notifier.happen(count)
    await receiver.received(before + count)
  }
  await fail(1)
  receiver.answerWith({ status: 410 })
  await fail(1)
  const [alert] = await eventually(async () => {
    const alerts = await alertsOf(notifier)
    expect(alerts).toHaveLength(1)
    return alerts
  })
  expect(alert).toMatchObject({ kind: 'endpoint_failing', endpointId: id })
  expect(alert!.detail).toContain(`${id} (${receiver.url()})`)
  expect(alert!.detail).toContain('410 Gone')
  await fail(6)
  await eventually(async () => {
    const [row] = await notifier.sql`select failures from endpoint_health where endpoint_id = ${id}`
    expect(row).toEqual({ failures: 8n })
  })
  expect(await alertsOf(notifier)).toHaveLength(1)
})
