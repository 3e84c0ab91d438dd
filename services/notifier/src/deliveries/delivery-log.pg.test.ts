import { newId } from '@licensing/database/ids'
import type { Delivery } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenEvent, publish } from '../testing/events.ts'
import type { TestNotifier } from '../testing/notifier.ts'
import { firstPage, startTestNotifier } from '../testing/notifier.ts'
import { readDeliveries, readLeftovers } from './delivery-log.ts'

let receiver: Awaited<ReturnType<typeof startHttpsReceiver>>
let notifier: TestNotifier
let good: string
let bad: string
beforeAll(async () => {
  receiver = await startHttpsReceiver()
  notifier = await startTestNotifier({ receiver })
  receiver.answerWith(({ path }) => ({ status: path === '/bad' ? 500 : 200 }))
  good = (await notifier.register(receiver.url('/good'))).id
  bad = (await notifier.register(receiver.url('/bad'))).id
  const retired = () =>
    givenEvent({
      ...notifier.of,
      payload: { case: 'licenceRetired', value: { licenceId: newId('lic'), status: 'retired' } },
    })
  await notifier.happen(20)
  await publish(notifier.nats, [retired(), retired(), retired()])
  await eventually(async () => {
    const deliveries = await notifier.deliveries()
    return deliveries.length === 46 && deliveries.every(({ attemptCount }) => attemptCount === 1)
  })
})
afterAll(async () => {
  await notifier[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

async function pages(filter: object, limit = 7): Promise<Delivery[]> {
  const found: Delivery[] = []
  for (;;) {
    const beforeId = found.at(-1)?.id ?? ''
    const page = await notifier.calls.listDeliveries({ ...notifier.of, ...filter, limit, beforeId })
    expect(page.deliveries.length).toBeLessThanOrEqual(limit)
    found.push(...page.deliveries)
    if (!page.hasMore) return found
  }
}

test('pages hold every delivery once, newest first', async () => {
  const all = await pages({})
  expect(all).toHaveLength(46)
  const ids = all.map(({ id }) => id)
  expect(ids).toEqual([...new Set(ids)].sort().toReversed())
})

test('each filter and all of them together find what fits', async () => {
  const all = await pages({}, 200)
  const filters = [
    { endpointId: good },
    { endpointId: bad },
    { eventType: 'licence.retired' },
    { eventType: 'licence.created' },
    { status: 'delivered' },
    { status: 'pending' },
    { status: 'failed' },
    { endpointId: good, status: 'delivered', eventType: 'licence.suspended' },
    { endpointId: good, status: 'pending' },
  ]
  for (const filter of filters) {
    const fits = (delivery: Delivery) =>
      Object.entries(filter).every(([name, value]) => delivery[name as keyof Delivery] === value)
    expect(await pages(filter)).toEqual(all.filter(fits))
  }
  expect(all.filter(({ endpointId }) => endpointId === bad)).toHaveLength(23)
})

test('an endpoint that is unknown, or of another application, has an empty page', async () => {
  expect(await pages({ endpointId: newId('whe') })).toEqual([])
  const elsewhere = { ...notifier.of, applicationId: newId('app') }
  const { endpoint } = await notifier.calls.createEndpoint({
    ...elsewhere,
    url: receiver.url(),
    subscribedEvents: '*',
  })
  expect(await pages({ endpointId: endpoint!.id })).toEqual([])
})

test('another account finds no delivery', async () => {
  const [delivery] = await notifier.deliveries()
  for (const stranger of [
    { ...notifier.of, accountId: newId('acct') },
    { ...notifier.of, applicationId: newId('app') },
  ]) {
    expect((await notifier.calls.listDeliveries({ ...stranger, ...firstPage })).deliveries).toEqual([])
    await expect(notifier.calls.getDelivery({ ...stranger, deliveryId: delivery!.id })).rejects.toMatchObject(
      { code: 'not_found' },
    )
  }
})

test('what waits for a disabled endpoint reads as failed before it is marked so, and is marked soon', async () => {
  const { sql, of } = notifier
  // As it is for a moment after an endpoint with very many pending deliveries was disabled.
  await sql.begin(async (tx) => {
    await tx`
      update endpoints set status = 'disabled', disabled_at = now(), disabled_reason = 'deleted', has_leftovers = true
      where id = ${bad}`
    expect(await readLeftovers(tx, of.applicationId)).toEqual([bad])
    const read = (filter: object) => readDeliveries(tx, { ...of, limit: 200, ...filter }, [bad])
    const failed = await read({ status: 'failed' })
    expect(failed.map(({ endpointId }) => endpointId)).toEqual(Array<string>(23).fill(bad))
    expect(failed.every(({ status, nextAttemptAt }) => status === 'failed' && nextAttemptAt === null)).toBe(
      true,
    )
    expect(await read({ status: 'failed', beforeId: failed[9]!.id })).toEqual(failed.slice(10))
    expect(await read({ status: 'failed', endpointId: good })).toEqual([])
    expect(await read({ status: 'pending' })).toEqual([])
    expect(await read({ status: 'delivered' })).toHaveLength(23)
  })
  await eventually(async () =>
    expect(await sql`select 1 from deliveries where status = 'pending'`).toHaveLength(0),
  )
  expect(await pages({ status: 'failed' })).toHaveLength(23)
  expect(await readLeftovers(sql, of.applicationId)).toEqual([])
})
