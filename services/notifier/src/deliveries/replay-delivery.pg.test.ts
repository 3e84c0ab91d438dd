import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { Delivery } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { keepPartitions } from '../maintenance/maintenance.ts'
import { createLogger } from '@licensing/process/log'
import type { TestNotifier } from '../../test/notifier.ts'
import { startTestNotifier } from '../../test/notifier.ts'

async function delivered(notifier: TestNotifier, filter: Partial<Delivery> = {}): Promise<Delivery> {
  return eventually(async () => {
    const [delivery] = await notifier.deliveries()
    expect(delivery).toMatchObject({ status: 'delivered', ...filter })
    return delivery!
  })
}

test('a replay of a delivered delivery is one more attempt with the same id and body', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await delivered(notifier)
  expect(await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })).toMatchObject({ id })
  await delivered(notifier, { id, attemptCount: 2 })
  const [first, second] = receiver.requests
  expect(second!.body.equals(first!.body)).toBe(true)
  expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id'])
  expect(second!.headers['webhook-attempt']).toBe('2')
})

test('a failed replay of a delivered delivery leaves it delivered and is not retried', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver, backoffSeconds: [0] })
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await delivered(notifier)
  receiver.answerWith({ status: 500 })
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })
  const after = await delivered(notifier, { attemptCount: 2, lastResponseCode: 500 })
  expect(after.nextAttemptAt).toBeUndefined()
  expect(
    await notifier.sql`select 1 from deliveries where due_at is not null or claim_id is not null`,
  ).toHaveLength(0)
})

test('a replay of a pending delivery is made at once and does not change its retry schedule', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen()
  const pending = (attemptCount: number) =>
    eventually(async () => {
      const [delivery] = await notifier.deliveries()
      expect(delivery).toMatchObject({ status: 'pending', attemptCount })
      return delivery!
    })
  const before = await pending(1)
  for (let i = 0; i < 13; i += 1)
    await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: before.id })
  const after = await pending(14)
  expect(timestampDate(after.nextAttemptAt!)).toEqual(timestampDate(before.nextAttemptAt!))
  receiver.answerWith({})
  notifier.clock.advance(60_000)
  await delivered(notifier, { attemptCount: 15 })
})

test('a replay that succeeds ends the retries', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await eventually(async () => {
    const [delivery] = await notifier.deliveries()
    expect(delivery?.attemptCount).toBe(1)
    return delivery!
  })
  receiver.answerWith({})
  await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })
  const after = await delivered(notifier, { attemptCount: 2 })
  expect(after.nextAttemptAt).toBeUndefined()
  expect(await notifier.sql`select 1 from deliveries where due_at is not null`).toHaveLength(0)
})

test('a replay requested during an attempt follows that attempt', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 300 })
  await using notifier = await startTestNotifier({ receiver })
  await notifier.register(receiver.url())
  await notifier.happen()
  await receiver.received(1)
  const [{ id } = { id: '' }] = await notifier.deliveries()
  await Promise.all([1, 2].map(() => notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })))
  await delivered(notifier, { attemptCount: 3 })
  expect(receiver.requests.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3'])
})

test('a delivery of a disabled endpoint is replayed to another endpoint as a new delivery', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  await using notifier = await startTestNotifier({ receiver })
  const { calls, of } = notifier
  const { id: oldEndpoint } = await notifier.register(receiver.url('/old'))
  const [event] = await notifier.happen()
  await receiver.received(1)
  await calls.deleteEndpoint({ ...of, endpointId: oldEndpoint })
  const [missed] = await notifier.deliveries()
  await expect(calls.replayDelivery({ ...of, deliveryId: missed!.id })).rejects.toMatchObject({
    code: 'conflict',
    members: { current: 'disabled', allowed: [] },
    message: expect.stringContaining('endpoint_id') as string,
  })

  const { id: successor } = await notifier.register(receiver.url('/new'), 'licence.created')
  const { id } = await calls.replayDelivery({ ...of, deliveryId: missed!.id, endpointId: successor })
  expect(id).not.toBe(missed!.id)
  const [, second] = await receiver.received(2)
  expect(second).toMatchObject({ path: '/new' })
  expect(second!.headers['webhook-attempt']).toBe('1')
  expect(second!.body.equals(receiver.requests[0]!.body)).toBe(true)
  // It is retried like any other delivery.
  const pending = await eventually(async () => {
    const [delivery] = await notifier.deliveries({ endpointId: successor })
    expect(delivery).toMatchObject({ id, attemptCount: 1, status: 'pending', eventId: event!.id })
    return delivery!
  })
  expect(pending.nextAttemptAt).toBeDefined()
  const { delivery } = await calls.getDelivery({ ...of, deliveryId: missed!.id })
  expect(delivery).toMatchObject({ status: 'failed', attemptCount: 1 })
})

test('a replay that is not possible is refused with its reason', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { calls, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  await notifier.happen()
  const { id: deliveryId } = await delivered(notifier)
  const codeOf = async (request: object) => {
    const call = calls.replayDelivery({ ...of, deliveryId, ...request })
    return call.then(
      () => 'accepted',
      (error: { code: string }) => error.code,
    )
  }
  expect(await codeOf({ deliveryId: newId('dlv') })).toBe('not_found')
  expect(await codeOf({ accountId: newId('acct') })).toBe('not_found')
  expect(await codeOf({ applicationId: newId('app') })).toBe('not_found')
  expect(await codeOf({ endpointId: newId('whe') })).toBe('validation_failed')
  const elsewhere = { ...of, applicationId: newId('app') }
  const other = await calls.createEndpoint({ ...elsewhere, url: receiver.url(), subscribedEvents: '*' })
  expect(await codeOf({ endpointId: other.endpoint!.id })).toBe('validation_failed')
  await calls.deleteEndpoint({ ...of, endpointId })
  expect(await codeOf({ endpointId })).toBe('conflict')
  expect(receiver.requests).toHaveLength(1)
})

test('after 90 days the payload is deleted, the record stays, and a replay is refused', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier({ receiver })
  const { calls, of, clock, sql } = notifier
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await delivered(notifier)
  const day = 86_400_000
  clock.advance(90 * day - 60_000)
  expect((await calls.getDelivery({ ...of, deliveryId: id })).payload).toBeDefined()
  clock.advance(120_000)

  const isGone = async () => {
    const { delivery, payload, attempts } = await calls.getDelivery({ ...of, deliveryId: id })
    expect(payload).toBeUndefined()
    expect(delivery).toMatchObject({ status: 'delivered', attemptCount: 1 })
    expect(attempts).toHaveLength(1)
    await expect(calls.replayDelivery({ ...of, deliveryId: id })).rejects.toMatchObject({
      code: 'payload_expired',
    })
    const events = await calls.listEvents({ accountId: of.accountId, after: 0n, limit: 0 })
    expect(events).toMatchObject({ envelopes: [], nextAfter: 0n })
  }
  await isGone()
  clock.advance(8 * day)
  await keepPartitions(sql, clock.now(), createLogger('test', 'silent'))
  expect(await sql`select 1 from events`).toHaveLength(0)
  await isGone()
  // New events still have a partition, and their sequence continues.
  await notifier.happen()
  await eventually(async () =>
    expect(await calls.listEvents({ accountId: of.accountId, after: 0n, limit: 0 })).toMatchObject({
      nextAfter: 2n,
    }),
  )
})
