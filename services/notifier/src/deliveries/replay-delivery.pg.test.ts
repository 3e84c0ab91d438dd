import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { createLogger } from '@licensing/process/log'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { notifierOfFile, startTestNotifier } from '../../test/notifier.ts'
import { keepPartitions } from '../maintenance/maintenance.ts'

const vendor = notifierOfFile()

test('a failed replay of a delivered delivery leaves it delivered and is not retried', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = vendor()
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await notifier.delivery({ status: 'delivered' })
  receiver.answerWith({ status: 500 })
  expect(await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })).toMatchObject({ id })
  const after = await notifier.delivery({ status: 'delivered', attemptCount: 2, lastResponseCode: 500 })
  expect(after.nextAttemptAt).toBeUndefined()
  const [row] = await notifier.sql`select due_at, claim_id from deliveries where id = ${id}`
  expect(row).toEqual({ due_at: null, claim_id: null })
})

test('a replay of a pending delivery is made at once and does not change its retry schedule', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = vendor()
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id, nextAttemptAt } = await notifier.delivery({ status: 'pending', attemptCount: 1 })
  // More replays than the schedule has attempts.
  for (let i = 0; i < 13; i += 1) await notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })
  const after = await notifier.delivery({ status: 'pending', attemptCount: 14 })
  expect(timestampDate(after.nextAttemptAt!)).toEqual(timestampDate(nextAttemptAt!))
  receiver.answerWith({})
  notifier.clock.advance(60_000)
  await notifier.delivery({ status: 'delivered', attemptCount: 15 })
})

test('a replay requested during an attempt follows that attempt', async () => {
  await using receiver = await startHttpsReceiver({ delayMs: 300 })
  const notifier = vendor()
  await notifier.register(receiver.url())
  await notifier.happen()
  await receiver.received(1)
  const { id } = await notifier.delivery({ status: 'pending' })
  await Promise.all([1, 2].map(() => notifier.calls.replayDelivery({ ...notifier.of, deliveryId: id })))
  await notifier.delivery({ status: 'delivered', attemptCount: 3 })
  expect(receiver.requests.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3'])
})

test('a delivery of a disabled endpoint is replayed to another endpoint as a new delivery', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = vendor()
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
  const [first, second] = await receiver.received(2)
  expect(second).toMatchObject({ path: '/new', body: first!.body })
  expect(second!.headers['webhook-attempt']).toBe('1')
  // It is retried like any other delivery.
  const pending = { id, attemptCount: 1, status: 'pending', eventId: event!.id }
  const { nextAttemptAt } = await notifier.delivery(pending, { endpointId: successor })
  const waitMs = timestampDate(nextAttemptAt!).getTime() - notifier.clock.now().getTime()
  expect(waitMs).toBeLessThanOrEqual(60_000)
  const { delivery } = await calls.getDelivery({ ...of, deliveryId: missed!.id })
  expect(delivery).toMatchObject({ status: 'failed', attemptCount: 1 })
})

test('a replay that is not possible is refused with its reason', async () => {
  await using receiver = await startHttpsReceiver()
  const notifier = vendor()
  const { calls, of } = notifier
  const { id: endpointId } = await notifier.register(receiver.url())
  await notifier.happen()
  const { id: deliveryId } = await notifier.delivery({ status: 'delivered' })
  const elsewhere = { ...of, applicationId: newId('app') }
  const { endpoint } = await calls.createEndpoint({
    ...elsewhere,
    fields: { url: receiver.url(), subscribedEvents: '*' },
  })
  await calls.deleteEndpoint({ ...of, endpointId })
  for (const [request, code] of [
    [{ deliveryId: newId('dlv') }, 'not_found'],
    [{ accountId: newId('acct') }, 'not_found'],
    [{ applicationId: newId('app') }, 'not_found'],
    [{ endpointId: newId('whe') }, 'validation_failed'],
    [{ endpointId: endpoint!.id }, 'validation_failed'],
    [{ endpointId }, 'conflict'],
  ] as const) {
    await expect(calls.replayDelivery({ ...of, deliveryId, ...request })).rejects.toMatchObject({ code })
  }
  expect(receiver.requests).toHaveLength(1)
})

test('after 90 days the payload is deleted, the record stays, and a replay is refused', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifier = await startTestNotifier()
  const { calls, of, clock, sql } = notifier
  await notifier.register(receiver.url())
  await notifier.happen()
  const { id } = await notifier.delivery({ status: 'delivered' })
  const day = 86_400_000
  const listEvents = () => calls.listEvents({ accountId: of.accountId, after: 0n, limit: 0 })
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
    expect(await listEvents()).toMatchObject({ envelopes: [], nextAfter: 0n })
  }
  await isGone()
  clock.advance(8 * day)
  await keepPartitions(sql, clock.now(), createLogger('test', 'silent'))
  expect(await sql`select 1 from events`).toHaveLength(0)
  await isGone()
  // New events still have a partition, and their sequence continues.
  await notifier.happen()
  await eventually(async () => expect(await listEvents()).toMatchObject({ nextAfter: 2n }))
})
