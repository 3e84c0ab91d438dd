import { newId } from '@licensing/database/ids'
import type { Delivery } from '@licensing/proto/notifier'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenLicenceEvent, publish } from '../../test/events.ts'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, startTestNotifier } from '../../test/notifier.ts'
import { findDeliveries, findEndpointsToCleanUp } from './delivery-log-queries.ts'

const running = new AsyncDisposableStack()
let notifier: TestNotifier
let good: string
let bad: string
beforeAll(async () => {
  const receiver = running.use(await startHttpsReceiver())
  notifier = running.use(await startTestNotifier())
  receiver.answerWith(({ path }) => ({ status: path === '/bad' ? 500 : 200 }))
  good = (await notifier.register(receiver.url('/good'))).id
  bad = (await notifier.register(receiver.url('/bad'))).id
  await notifier.happen(20)
  const retired = Array.from({ length: 3 }, () => givenLicenceEvent(notifier.of, 'licenceRetired'))
  await publish(notifier, retired)
  await eventually(async () => {
    const deliveries = await notifier.deliveries()
    return deliveries.length === 46 && deliveries.every(({ attemptCount }) => attemptCount === 1)
  })
})
afterAll(() => running.disposeAsync())

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

test('pages contain every matching delivery once, newest first, for each filter and for all filters together', async () => {
  const all = await pages({}, 200)
  expect(all).toHaveLength(46)
  const ids = all.map(({ id }) => id)
  expect(ids).toEqual([...new Set(ids)].sort().toReversed())
  const { eventId } = all[3]!
  const { licenceId } = all[5]!
  expect(licenceId).toMatch(/^lic_/)
  for (const [filter, count] of [
    [{}, 46],
    [{ endpointId: good }, 23],
    [{ endpointId: bad }, 23],
    [{ endpointId: newId('whe') }, 0],
    [{ eventType: 'licence.retired' }, 6],
    [{ eventType: 'licence.created' }, 0],
    [{ status: 'delivered' }, 23],
    [{ status: 'pending' }, 23],
    [{ status: 'failed' }, 0],
    [{ endpointId: good, status: 'delivered', eventType: 'licence.suspended' }, 20],
    [{ endpointId: good, status: 'pending' }, 0],
    [{ eventId }, 2],
    [{ eventId: newId('evt') }, 0],
    [{ licenceId }, 2],
    [{ licenceId, endpointId: bad, status: 'pending' }, 1],
    [{ licenceId: newId('lic') }, 0],
  ] as const) {
    const fits = (delivery: Delivery) =>
      Object.entries(filter).every(([name, value]) => delivery[name as keyof Delivery] === value)
    const found = await pages(filter)
    expect(found).toEqual(all.filter(fits))
    expect(found).toHaveLength(count)
  }
})

test('another account or application finds no delivery, not even by its endpoint', async () => {
  const [delivery] = await notifier.deliveries()
  const deliveryId = delivery!.id
  const { calls, of } = notifier
  for (const other of [{ accountId: newId('acct') }, { applicationId: newId('app') }]) {
    const otherScope = { ...of, ...other }
    for (const filter of [{}, { endpointId: good }]) {
      const { deliveries } = await calls.listDeliveries({ ...otherScope, ...firstPage, ...filter })
      expect(deliveries).toEqual([])
    }
    const attempts = { ...otherScope, deliveryId, limit: 0, beforeAttempt: 0 }
    await expect(calls.getDelivery({ ...otherScope, deliveryId })).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(calls.listAttempts(attempts)).rejects.toMatchObject({ code: 'not_found' })
  }
})

test('a pending delivery of a disabled endpoint is shown as failed at once, and is updated soon', async () => {
  const { sql, of } = notifier
  // The table looks like this for a moment after an endpoint with very many pending deliveries was disabled.
  await sql.begin(async (tx) => {
    await tx`
      update endpoints set status = 'disabled', disabled_at = now(), disabled_reason = 'deleted', is_cleanup_due = true
      where id = ${bad}`
    expect(await findEndpointsToCleanUp(tx, of.applicationId)).toEqual([bad])
    const read = (filter: object) => findDeliveries(tx, { ...of, limit: 200, ...filter }, [bad])
    const failed = await read({ status: 'failed' })
    expect(failed.map((row) => row.endpoint_id)).toEqual(Array<string>(23).fill(bad))
    expect(failed.every((row) => row.status === 'failed' && row.next_attempt_at === null)).toBe(true)
    expect(await read({ status: 'failed', beforeId: failed[9]!.id })).toEqual(failed.slice(10))
    expect(await read({ status: 'failed', endpointId: good })).toEqual([])
    expect(await read({ status: 'pending' })).toEqual([])
    expect(await read({ status: 'delivered' })).toHaveLength(23)
  })
  await eventually(async () =>
    expect(await sql`select 1 from deliveries where status = 'pending'`).toHaveLength(0),
  )
  expect(await pages({ status: 'failed' })).toHaveLength(23)
  expect(await findEndpointsToCleanUp(sql, of.applicationId)).toEqual([])
})

test('a delivery’s detail has its newest 100 attempts, and pages have all of them, newest first', async () => {
  const { calls, of, sql } = notifier
  // A delivery that is retried could get another attempt during the test.
  const [delivery] = await pages({ endpointId: good, status: 'delivered' })
  const deliveryId = delivery!.id
  await sql`
    insert into attempts (delivery_id, attempt, at, duration_ms)
    select ${deliveryId}, n, now(), 1 from generate_series(${delivery!.attemptCount + 1}::int, 250) as n`
  await sql`update deliveries set attempt_count = 250 where id = ${deliveryId}`
  const numbers = (attempts: { attempt: number }[]) => attempts.map(({ attempt }) => attempt)
  const detail = await calls.getDelivery({ ...of, deliveryId })
  expect(numbers(detail.attempts)).toEqual(Array.from({ length: 100 }, (_, at) => 151 + at))

  const seen: number[] = []
  for (let beforeAttempt = 0; ;) {
    const page = await calls.listAttempts({ ...of, deliveryId, limit: 100, beforeAttempt })
    seen.push(...numbers(page.attempts))
    if (!page.hasMore) break
    beforeAttempt = seen.at(-1)!
  }
  expect(seen).toEqual(Array.from({ length: 250 }, (_, at) => 250 - at))
})
