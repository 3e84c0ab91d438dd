import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import type { TestDatabase } from '@licensing/test-support/database'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { leasePartitions, movePosition } from './consumer-queries.ts'
import { consumerMigrations } from './migrations.ts'

let database: TestDatabase
let sql: Database
beforeEach(async () => {
  database = await createTestDatabase()
  sql = connect(database.url, { name: 'test' })
  await migrate(sql, [consumerMigrations])
})
afterEach(async () => {
  await sql.end({ timeout: 5 })
  await database[Symbol.asyncDispose]()
})

const stream = 'TEST_EVENTS'
const lease = (member: string, leaseMs = 60_000) =>
  leasePartitions(sql, { stream, member, leaseMs, partitionCount: 4 })
const move = (member: string, from: bigint) => ({ stream, partition: 1, member, from, to: from + 1n })

test('leases are renewed while a batch is processed, and neither waits for the other', async () => {
  expect(await lease('a')).toEqual([0, 1, 2, 3])
  await sql.begin(async (batch) => {
    expect(await movePosition(batch, { ...move('a', 0n), leaseMs: 60_000 })).toBe(true)
    expect(await lease('a')).toEqual([0, 1, 2, 3])
  })
  expect(await movePosition(sql, { ...move('a', 1n), leaseMs: 60_000 })).toBe(true)
})

test('a batch renews the lease of its partition', async () => {
  await lease('a', 1)
  expect(await movePosition(sql, { ...move('a', 0n), leaseMs: 60_000 })).toBe(true)
  // The others have run out.
  expect(await lease('b')).not.toContain(1)
  expect(await movePosition(sql, { ...move('a', 1n), leaseMs: 60_000 })).toBe(true)
})

test('a partition is given up when its batch has ended, however busy it is', async () => {
  await lease('a')
  await sql`insert into consumer_members (stream, member, seen_at) values (${stream}, 'b', now())`
  let giving: Promise<number[]> = Promise.resolve([])
  await sql.begin(async (batch) => {
    const partition = 3
    await movePosition(batch, { ...move('a', 0n), partition, leaseMs: 60_000 })
    giving = lease('a')
  })
  expect(await giving).toEqual([0, 1])
  expect(await lease('b')).toEqual([2, 3])
  expect(await movePosition(sql, { ...move('a', 1n), partition: 3, leaseMs: 60_000 })).toBe(false)
})
