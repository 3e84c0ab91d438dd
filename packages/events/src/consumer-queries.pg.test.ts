import { connect } from '@licensing/database/connect'
import type { Sql } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { deleteForgotten, leasePartitions, movePosition } from './consumer-queries.ts'
import type { Log } from './consumer-queries.ts'
import { consumerMigrations } from './migrations.ts'
import { firstPartitions } from './partitions.ts'

const database = await createTestDatabase()
const sql = connect(database.url, { name: 'test' })
await migrate(sql, [consumerMigrations])
afterAll(async () => {
  await sql.end({ timeout: 5 })
  await database[Symbol.asyncDispose]()
})
beforeEach(() => sql`truncate consumer_positions`)

const source = 'licensing'
const lease = async (member: string, log?: Log) => {
  const held = await leasePartitions(sql, source, member, log)
  return held.map(({ partition }) => partition)
}
const at = (number: bigint) => ({ epoch: 1n, number, done: 0 })
const move = (tx: Sql, member: string, from: bigint, partition = 1) =>
  movePosition(tx, { source, partition, member }, at(from), at(from + 1n))
const expire = () => sql`update consumer_positions set held_until = clock_timestamp() - interval '1 second'`
const all = [0, 1, 2, 3, 4, 5, 6, 7]

test('leases are renewed while a batch is processed, and neither waits for the other', async () => {
  expect(await lease('a')).toEqual(all)
  await sql.begin(async (batch) => {
    expect(await move(batch, 'a', 0n)).toBe(true)
    expect(await lease('a')).toEqual(all)
  })
  expect(await move(sql, 'a', 1n)).toBe(true)
})

test('a batch renews the lease of its partition', async () => {
  await lease('a')
  await expire()
  expect(await move(sql, 'a', 0n)).toBe(true)
  // The leases of the other partitions have ended.
  expect(await lease('b')).toEqual(all.filter((partition) => partition !== 1))
  expect(await move(sql, 'a', 1n)).toBe(true)
})

test('a partition with an ended lease goes to another replica, and the former holder cannot move its position', async () => {
  await lease('a')
  await expire()
  expect(await lease('b')).toEqual(all)
  expect(await move(sql, 'a', 0n)).toBe(false)
  expect(await move(sql, 'b', 0n)).toBe(true)
})

test('if the clock is set back, the partitions of a replica that has died are free nevertheless', async () => {
  await lease('a')
  // As if the clock had been an hour ahead.
  await sql`update consumer_positions set held_until = held_until + interval '1 hour'`
  expect(await lease('b')).toEqual(all)
})

test('a new replica takes its share of the partitions, and waits for the end of a batch in one of them', async () => {
  await lease('a')
  let taking: Promise<number[]> = Promise.resolve([])
  await sql.begin(async (batch) => {
    expect(await move(batch, 'a', 0n, 2)).toBe(true)
    taking = lease('b')
  })
  expect(await taking).toEqual([0, 1, 2, 3])
  expect(await move(sql, 'a', 1n, 2)).toBe(false)
  expect(await lease('a')).toEqual([4, 5, 6, 7])
})

test('replicas that begin at the same time have equal shares after a few rounds, and keep them', async () => {
  const members = ['a', 'b', 'c']
  const round = () => Promise.all(members.map((member) => lease(member)))
  for (let number = 0; number < 4; number += 1) await round()
  const shares = await round()
  expect(shares.map((share) => share.length).toSorted((a, b) => a - b)).toEqual([2, 3, 3])
  expect(shares.flat().toSorted((a, b) => a - b)).toEqual(all)
  expect(await round()).toEqual(shares)
})

test('a sole replica renews leases that have less than half left, except of a partition that has a batch in progress', async () => {
  await lease('a')
  await sql`update consumer_positions set held_until = clock_timestamp() + interval '1 second'`
  await sql.begin(async (batch) => {
    await move(batch, 'a', 0n, 2)
    expect(await lease('a')).toEqual(all)
  })
  const rows = await sql<{ seconds: number }[]>`
    select extract(epoch from held_until - clock_timestamp())::float8 as seconds from consumer_positions`
  expect(rows).toHaveLength(firstPartitions)
  for (const { seconds } of rows) expect(seconds).toBeGreaterThan(3)
})

/** The answer of a log that got eight more partitions, when each of the first eight had five batches. */
const grown = (epoch = 1n, growth = { epoch: 1n, number: 5n }) =>
  ({
    epoch,
    numbers: Array<bigint>(16).fill(9n),
    growths: [{ epoch: growth.epoch, numbers: Array<bigint>(8).fill(growth.number) }],
  }) as unknown as Log
const reach = (number: number, partition: number[] = all, epoch = 1) =>
  sql`update consumer_positions set number = ${number}, epoch = ${epoch} where partition = any(${partition}::int[])`
const allOfGrown = Array.from({ length: 16 }, (_, partition) => partition)

test('partitions that a log has added are read when all earlier ones are consumed up to that time', async () => {
  expect(await lease('a', grown())).toEqual(all)
  await reach(5)
  await reach(4, [7])
  expect(await lease('a', grown())).toEqual(all)
  await reach(5, [7])
  expect(await lease('a', grown())).toEqual(allOfGrown)
  // Another replica takes its share of all of them.
  await lease('b', grown())
  expect(await lease('a', grown())).toHaveLength(8)
})

test('an answer from before a log was restored begins with no partition', async () => {
  await lease('a')
  await reach(1, [3], 2)
  expect(await lease('a', grown(1n, { epoch: 1n, number: 0n }))).toEqual(all)
  expect(await lease('a', grown(2n, { epoch: 1n, number: 0n }))).toEqual(allOfGrown)
})

test('positions in partitions that a restored log has not had are forgotten, and no others', async () => {
  await lease('a')
  await reach(5)
  await lease('a', grown())
  await deleteForgotten(sql, source, grown())
  expect(await lease('a')).toEqual(allOfGrown)
  // It was restored to a time before it grew, and grew again in the next epoch.
  await sql`update consumer_positions set epoch = 2 where partition = 12`
  await deleteForgotten(sql, source, grown(3n, { epoch: 2n, number: 5n }))
  expect(await lease('a')).toEqual([...all, 12])
  await deleteForgotten(sql, source, { ...grown(3n), numbers: Array<bigint>(8).fill(9n), growths: [] })
  expect(await lease('a')).toEqual(all)
})
