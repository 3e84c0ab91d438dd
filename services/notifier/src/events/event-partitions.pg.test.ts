import { connect } from '@licensing/database/connect'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { dropPartitions, makePartitions, listPartitions } from './event-partitions.ts'

const day = 86_400_000
const now = new Date('2026-11-21T12:00:00Z')
const later = (days: number) => new Date(now.getTime() + days * day)

let database: Awaited<ReturnType<typeof givenDatabase>>
let sql: (typeof database)['sql']
beforeEach(async () => {
  database = await givenDatabase()
  sql = database.sql
})
afterEach(() => database[Symbol.asyncDispose]())

async function record(at: Date): Promise<void> {
  await sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body)
    values (${at}, 'acct_1', ${at.getTime()}, 'app_1', 'evt_1', '{}')`
}

test('partitions of the next weeks are created once, by any replica, without a gap', async () => {
  const made = await Promise.all([makePartitions(sql, now), makePartitions(sql, now)])
  expect(made.flat()).toHaveLength(10)
  for (let days = -5; days < 55; days += 1) await record(later(days))
  expect((await makePartitions(sql, later(7))).length).toBe(1)
  const names = (await listPartitions(sql)).map(({ name }) => name)
  expect(names[0]).toBe('events_20261109')
  expect(names).toEqual(names.toSorted())
})

test('a partition is dropped as soon as all of it is past retention', async () => {
  await makePartitions(sql, now)
  await record(later(-6))
  // The week of 9 November ends on the 16th.
  expect(await dropPartitions(sql, new Date('2027-02-13T23:59:59Z'))).toEqual([])
  expect(await dropPartitions(sql, new Date('2027-02-14T00:00:00Z'))).toEqual(['events_20261109'])
  expect(await sql`select 1 from events`).toHaveLength(0)
})

test('a retention that the operator sets decides when a partition is dropped', async () => {
  await makePartitions(sql, now)
  expect(await dropPartitions(sql, later(1), 7 * day)).toEqual([])
  expect(await dropPartitions(sql, later(2), 7 * day)).toEqual(['events_20261109'])
})

test('a drop does not wait for readers and does not block them', async () => {
  await makePartitions(sql, now)
  await record(later(-5))
  await record(later(1))
  const reader = await sql.reserve()
  await reader`begin`
  await reader`select count(*) from events`
  const dropping = dropPartitions(sql, later(100))
  // While the drop waits for the reader, other transactions read and write.
  for (let i = 1; i <= 20; i += 1) {
    await record(new Date(later(1).getTime() + i))
    expect(await sql`select 1 from events where recorded_at = ${later(1)}`).toHaveLength(1)
  }
  await reader`commit`
  reader.release()
  expect(await dropping).toContain('events_20261109')
})

test('an interrupted drop is completed by the next one', async () => {
  await makePartitions(sql, now)
  const reader = await sql.reserve()
  await reader`begin`
  await reader`select count(*) from events`
  const other = connect(database.url, { name: 'other', statementTimeoutMs: 200 })
  await expect(dropPartitions(other, later(100))).rejects.toThrow('statement timeout')
  await other.end()
  await reader`commit`
  reader.release()
  expect((await listPartitions(sql)).some(({ state }) => state === 'detaching')).toBe(true)
  expect(await dropPartitions(sql, later(100))).toContain('events_20261109')
  await sql`create table events_20240101 (like events)`
  expect(await dropPartitions(sql, later(100))).toEqual(['events_20240101'])
})
