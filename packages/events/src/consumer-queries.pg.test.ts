import { connect } from '@licensing/database/connect'
import type { Sql } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { leasePartitions, movePosition } from './consumer-queries.ts'
import { consumerMigrations } from './migrations.ts'
import { partitionCount } from './partitions.ts'

const database = await createTestDatabase()
const sql = connect(database.url, { name: 'test' })
await migrate(sql, [consumerMigrations])
afterAll(async () => {
  await sql.end({ timeout: 5 })
  await database[Symbol.asyncDispose]()
})
beforeEach(() => sql`truncate consumer_positions`)

const source = 'licensing'
const lease = async (member: string) => {
  const held = await leasePartitions(sql, source, member)
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
  const round = () => Promise.all(members.map(lease))
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
  expect(rows).toHaveLength(partitionCount)
  for (const { seconds } of rows) expect(seconds).toBeGreaterThan(3)
})
