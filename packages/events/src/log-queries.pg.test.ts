import { expect, test } from 'vitest'
import { findLogFor, listBatches, truncateSlot } from './log-queries.ts'
import { slotOf } from './outbox-queries.ts'
import { givenDatabase, upTo } from './testing/given.ts'

test('the newest batches of a large log are found without reading the rest of it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const each = 10_000
  await sql`
    insert into event_log (slot, partition, number, epoch, precedes_epoch, events)
    select slot, partition, slot * ${each}::int + number, 1, false, 'payload'
    from generate_series(0, 1) as slot, generate_series(0, 7) as partition, generate_series(1, ${each}::int) as number`
  await sql`analyze event_log`
  const newest = BigInt(2 * each)
  const read = listBatches(sql, { partition: 3, epoch: 1n, number: newest - 5n, bytes: 100_000 })
  const [explained] = await sql<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }[]>`
    explain (analyze, buffers, format json) ${read}`
  const { Plan: plan } = explained!['QUERY PLAN'][0]!
  expect(plan['Actual Rows']).toBe(5)
  // An index of one day has some 300 blocks.
  expect(plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!).toBeLessThan(100)
})

test('replicas of a consumer that report the same partitions in different orders do not deadlock', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const partitions = [0, 1, 2, 3, 4, 5, 6, 7]
  const report = async (order: number[]) => {
    for (const round of upTo(150)) {
      const number = BigInt(round)
      await findLogFor(
        sql,
        'notifier',
        order.map((partition) => ({ partition, epoch: 1n, number })),
      )
    }
  }
  const reports = [partitions, partitions.toReversed(), partitions, partitions.toReversed()].map(report)
  expect(await Promise.allSettled(reports)).toMatchObject(reports.map(() => ({ status: 'fulfilled' })))
})

test('the table that takes the batches of the present day is not truncated', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql`
    insert into event_log (slot, partition, number, epoch, precedes_epoch, events)
    select slot, 0, slot + 1, 1, false, 'payload' from generate_series(0, 15) as slot`
  for (const slot of upTo(16).map((number) => number - 1)) await truncateSlot(sql, slot)
  const left = await sql<{ is_present: boolean }[]>`select slot = ${slotOf(sql)} as is_present from event_log`
  expect(left).toEqual([{ is_present: true }])
})
