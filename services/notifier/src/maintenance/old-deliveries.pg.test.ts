import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { notifierOfFile } from '../../test/notifier.ts'
import { deleteOldDeliveries } from './maintenance.ts'

const givenVendor = notifierOfFile()

/** A vendor with three deliveries that have succeeded, and three that are retried, and the number of each endpoint's. */
async function givenDeliveries(receiver: { url(path: string): string }) {
  const vendor = givenVendor()
  const good = await vendor.register(receiver.url('/good'))
  const bad = await vendor.register(receiver.url('/bad'))
  await vendor.happen(3)
  const has = (endpoint: { id: string }, wanted: { status: string; attemptCount: number }) =>
    eventually(async () => {
      const found = await vendor.deliveries({ endpointId: endpoint.id })
      expect(found).toMatchObject([wanted, wanted, wanted])
    })
  await has(good, { status: 'delivered', attemptCount: 1 })
  await has(bad, { status: 'pending', attemptCount: 1 })
  const count = async (endpoint: { id: string }) =>
    (await vendor.deliveries({ endpointId: endpoint.id })).length
  return { vendor, good, bad, count }
}

const answer = ({ path }: { path: string }) => ({ status: path === '/bad' ? 500 : 200 })

test('deliveries that have ended are deleted with their attempts when their time is over; pending and younger ones stay', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(answer)
  const { vendor, good, bad, count } = await givenDeliveries(receiver)
  const before = new Date()
  await vendor.happen(1)
  await eventually(async () => {
    const all = await vendor.deliveries({ endpointId: good.id })
    expect(all.filter(({ status }) => status === 'delivered')).toHaveLength(4)
    expect(await count(bad)).toBe(4)
  })
  await deleteOldDeliveries(vendor.sql, before)
  expect([await count(good), await count(bad)]).toEqual([1, 4])
  const attempts = await vendor.sql`
    select from attempts a left join deliveries d on d.id = a.delivery_id where d.id is null`
  expect(attempts).toHaveLength(0)
})

test('a delivery that another transaction has locked is left for the next time, and nobody waits', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(answer)
  const { vendor, good, count } = await givenDeliveries(receiver)
  const [oldest] = (await vendor.deliveries({ endpointId: good.id })).toReversed()
  const other = await vendor.sql.reserve()
  await other`begin`
  await other`select from deliveries where id = ${oldest!.id} for update`
  await deleteOldDeliveries(vendor.sql, new Date())
  expect(await vendor.deliveries({ endpointId: good.id })).toMatchObject([{ id: oldest!.id }])
  await other`commit`
  other.release()
  await deleteOldDeliveries(vendor.sql, new Date())
  expect(await count(good)).toBe(0)
})
