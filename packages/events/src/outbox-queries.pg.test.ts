import type { Sql } from '@licensing/database/connect'
import { sendTogether } from '@licensing/database/send-together'
import { fromBinary } from '@bufbuild/protobuf'
import { EventSchema } from '@licensing/proto/events'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { append } from './outbox.ts'
import {
  begin,
  beginEpoch,
  commit,
  insertBatches,
  lockState,
  rollback,
  takeShares,
} from './outbox-queries.ts'
import type { OutboxRow } from './outbox-queries.ts'
import { givenDatabase, suspended, upTo } from './testing/given.ts'

/** Takes the first events, as a relay does. The transaction goes on. */
async function taken(connection: Sql, share = { after: '', each: 20, limit: 100 }) {
  const [, [state], rows] = await sendTogether(
    begin(connection),
    lockState(connection),
    takeShares(connection, share),
  )
  return { state: state!, rows }
}

const contentsOf = (rows: OutboxRow[]) =>
  rows.map(({ account_id: account, payload }) => {
    const { value } = fromBinary(EventSchema, payload).payload
    return `${account} ${value && 'licenceId' in value ? value.licenceId : ''}`
  })

test('each account has its share, in order, and the next look begins after the last account', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  for (const account of ['acct_b', 'acct_a', 'acct_c']) {
    await sql.begin((tx) => append(tx, ...upTo(3).map((number) => suspended(account, number))))
  }
  const connection = await sql.reserve()
  const looks: string[][] = []
  for (const after of ['', 'acct_b', '']) {
    const { rows } = await taken(connection, { after, each: 2, limit: 4 })
    await commit(connection)
    looks.push(contentsOf(rows))
  }
  connection.release()
  expect(looks).toEqual([
    ['acct_a 1', 'acct_a 2', 'acct_b 1', 'acct_b 2'],
    ['acct_c 1', 'acct_c 2'],
    ['acct_a 3', 'acct_b 3', 'acct_c 3'],
  ])
})

test('events are in the outbox or in the log: a transaction that is rolled back leaves them in the outbox', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1)))
  const connection = await sql.reserve()
  const move = async () => {
    const { state } = await taken(connection)
    const numbers = [state.numbers[0]! + 1n, ...state.numbers.slice(1)]
    const batches = [{ partition: 0, number: numbers[0]!, bytes: Buffer.from('batch') }]
    await insertBatches(connection, numbers, batches)
  }
  await move()
  await rollback(connection)
  expect(await sql`select from outbox`).toHaveLength(1)
  expect(await sql`select from event_log`).toHaveLength(0)
  await move()
  await commit(connection)
  connection.release()
  expect(await sql`select from outbox`).toHaveLength(0)
  expect(await sql`select number from event_log`).toEqual([{ number: 1n }])
})

test('a relay waits for another one, and finds what that one has left', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1), suspended('acct_a', 2)))
  const [holder, other] = [await sql.reserve(), await sql.reserve()]
  const first = await taken(holder, { after: '', each: 1, limit: 100 })
  const waiting = taken(other)
  await eventually(async () => {
    const blocked = await sql`select from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0`
    expect(blocked).toHaveLength(1)
  })
  const numbers = first.state.numbers.map((number) => number + 7n)
  await insertBatches(holder, numbers, [{ partition: 0, number: 7n, bytes: Buffer.from('batch') }])
  await commit(holder)
  const second = await waiting
  await commit(other)
  expect([contentsOf(first.rows), contentsOf(second.rows)]).toEqual([['acct_a 1'], ['acct_a 2']])
  expect(second.state.numbers).toEqual(numbers)
  holder.release()
  other.release()
})

test('an epoch begins once for each start of the database', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await Promise.all([beginEpoch(sql, 'one'), beginEpoch(sql, 'other')])
  expect(await sql`select from event_log_epochs`).toHaveLength(1)
  await sql`update event_log_state set incarnation = 'of an earlier start'`
  expect(await beginEpoch(sql, 'later')).toBe(true)
  expect(await sql`select epoch from event_log_state`).toEqual([{ epoch: 'later' }])
})

test('PostgreSQL gathers no statistics of the outbox, and locks nobody out to shorten it once it is empty', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, ...upTo(1_000).map((number) => suspended('acct_a', number))))
  await sql`delete from outbox`
  const sizeOf = async () => {
    const [row] = await sql<{ bytes: number }[]>`select pg_relation_size('outbox')::int as bytes`
    return row!.bytes
  }
  const full = await sizeOf()
  expect(full).toBeGreaterThan(100_000)
  await sql`vacuum outbox`
  expect(await sizeOf()).toBe(full)

  const [row] = await sql<{ options: string[] }[]>`
    select reloptions as options from pg_class where oid = 'outbox'::regclass`
  // More changes than a table can have.
  expect(row!.options).toContain('autovacuum_analyze_threshold=2147483647')
})
