import type { Sql } from '@licensing/database/connect'
import { sendTogether } from '@licensing/database/send-together'
import { transaction } from '@licensing/database/transaction'
import { fromBinary } from '@bufbuild/protobuf'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { append } from './outbox.ts'
import { beginEpoch } from './epoch-queries.ts'
import { begin, commit, lockState, moveToLog, rollback } from './outbox-queries.ts'
import type { LoggedBatch } from './outbox-queries.ts'
import { findLogFor, growLog, listGrowths } from './log-queries.ts'
import { partitionOf } from './partitions.ts'
import { byAccount, givenDatabase, logContents, suspended, upTo } from './testing/given.ts'

/** Moves the first events to the log, as a relay does. Leaves the transaction open. */
async function moved(connection: Sql, share: Partial<Parameters<typeof moveToLog>[1]> = {}) {
  const all = { held: [], after: '', each: 20, limit: 100, batchBytes: 100_000, ...share }
  const [, , batches] = await sendTogether(
    begin(connection),
    lockState(connection, ['notifier']),
    moveToLog(connection, all),
  )
  return batches
}

const contentsOf = (batches: LoggedBatch[]) =>
  batches
    .flatMap(({ events }) => fromBinary(EventBatchSchema, events).events)
    .map(({ event }) => {
      const { accountId, payload } = fromBinary(EventSchema, event)
      return `${accountId} ${payload.value && 'licenceId' in payload.value ? payload.value.licenceId : ''}`
    })

async function givenOutbox() {
  const database = await givenDatabase()
  await beginEpoch(database.sql)
  return database
}

test('each account gets its share in order, and the next round begins after the last account', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  for (const account of ['acct_b', 'acct_a', 'acct_c']) {
    await sql.begin((tx) => append(tx, ...upTo(3).map((number) => suspended(account, number))))
  }
  const connection = await sql.reserve()
  const looks: string[][] = []
  for (const after of ['', 'acct_b', '']) {
    const batches = await moved(connection, { after, each: 2, limit: 4 })
    await commit(connection)
    looks.push(contentsOf(batches).sort())
    expect(new Set(batches.map((batch) => batch.last_account))).toEqual(
      new Set([after === '' && looks.length === 1 ? 'acct_b' : 'acct_c']),
    )
  }
  connection.release()
  expect(looks).toEqual([
    ['acct_a 1', 'acct_a 2', 'acct_b 1', 'acct_b 2'],
    ['acct_c 1', 'acct_c 2'],
    ['acct_a 3', 'acct_b 3', 'acct_c 3'],
  ])
  expect(byAccount(await logContents(sql))).toEqual({ acct_a: upTo(3), acct_b: upTo(3), acct_c: upTo(3) })
})

test('held accounts are left out, and their events stay in the outbox', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  for (const account of ['acct_a', 'acct_b', 'acct_c']) {
    await sql.begin((tx) => append(tx, suspended(account, 1)))
  }
  const connection = await sql.reserve()
  const batches = await moved(connection, { held: ['acct_a', 'acct_b'] })
  await commit(connection)
  connection.release()
  expect(batches.map(({ accounts }) => accounts)).toEqual([['acct_c']])
  expect((await sql`select account_id from outbox order by 1`).map((row) => row.account_id)).toEqual([
    'acct_a',
    'acct_b',
  ])
})

test('a number is confirmed when all consumers have confirmed it', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  const confirmed = async () => {
    const [state] = await lockState(sql, ['notifier', 'archive'])
    return state!.confirmed.map(Number)
  }
  expect(await confirmed()).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
  await findLogFor(sql, 'notifier', [
    { partition: 1, epoch: 1n, number: 7n },
    { partition: 3, epoch: 1n, number: 9n },
  ])
  await findLogFor(sql, 'archive', [{ partition: 3, epoch: 1n, number: 4n }])
  await findLogFor(sql, 'retired', [{ partition: 3, epoch: 1n, number: 1n }])
  expect(await confirmed()).toEqual([0, 0, 0, 4, 0, 0, 0, 0])
})

test('each partition has its own numbers without a gap, and a batch ends when it is large', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  const accounts = upTo(30).map((number) => `acct_${number}`)
  await sql.begin((tx) =>
    append(tx, ...upTo(5).flatMap((n) => accounts.map((account) => suspended(account, n)))),
  )
  const connection = await sql.reserve()
  const batches = [
    ...(await moved(connection, { each: 2, batchBytes: 200 })),
    ...(await commit(connection), []),
    ...(await moved(connection, { limit: 1_000, batchBytes: 200 })),
  ]
  await commit(connection)
  connection.release()
  const [state] = await sql<{ numbers: bigint[] }[]>`select numbers from event_log_state`
  for (const partition of upTo(8).map((number) => number - 1)) {
    const own = batches.filter((batch) => batch.partition === partition)
    expect(own.map(({ number }) => Number(number))).toEqual(upTo(own.length))
    expect(state!.numbers[partition]).toBe(BigInt(own.length))
    const events = own.flatMap(({ events: bytes }) => fromBinary(EventBatchSchema, bytes).events)
    const owners = events.map(({ event }) => fromBinary(EventSchema, event).accountId)
    expect(owners.every((account) => partitionOf(account) === partition)).toBe(true)
  }
  expect(batches.reduce((sum, { event_count: count }) => sum + count, 0)).toBe(150)
  // A batch may exceed the limit by one event, of some 80 bytes.
  expect(Math.max(...batches.map(({ events }) => events.length))).toBeLessThan(400)
  expect(batches.some(({ event_count: count }) => count > 1)).toBe(true)
  expect(byAccount(await logContents(sql))).toEqual(
    Object.fromEntries(accounts.map((account) => [account, upTo(5)])),
  )
})

test('a log that gets more partitions goes on with its numbers; an account stays in its partition or moves to an added one', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  const accounts = upTo(30).map((number) => `acct_${number}`)
  const connection = await sql.reserve()
  const moveAll = async (number: number) => {
    await sql.begin((tx) => append(tx, ...accounts.map((account) => suspended(account, number))))
    const batches = await moved(connection)
    await commit(connection)
    return new Map(batches.map((batch) => [batch.partition, batch.number]))
  }
  const before = await moveAll(1)
  await Promise.all([growLog(sql, 16), growLog(sql, 16)])
  await growLog(sql, 8)
  const after = await moveAll(2)
  connection.release()
  expect(await listGrowths(sql)).toEqual([{ epoch: 1n, numbers: upTo(8).map(() => 1n) }])
  expect([...before.keys()]).toEqual(upTo(8).map((number) => number - 1))
  for (const account of accounts) {
    const [former, later] = [partitionOf(account), partitionOf(account, 16)]
    expect([former, former + 8]).toContain(later)
    expect(after.get(later)).toBe(later === former ? 2n : 1n)
  }
  expect(new Set(after.keys())).toEqual(new Set(accounts.map((account) => partitionOf(account, 16))))
})

test('events are in the outbox or in the log: a transaction that is rolled back leaves them in the outbox', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1)))
  const connection = await sql.reserve()
  expect(contentsOf(await moved(connection))).toEqual(['acct_a 1'])
  await rollback(connection)
  expect(await sql`select from outbox`).toHaveLength(1)
  expect(await sql`select from event_log`).toHaveLength(0)
  const batches = await moved(connection)
  await commit(connection)
  connection.release()
  expect(await sql`select from outbox`).toHaveLength(0)
  expect(batches).toMatchObject([{ number: 1n, event_count: 1, epoch: 1n, precedes_epoch: false }])
  expect(await sql`select number, events from event_log`).toEqual([
    { number: 1n, events: batches[0]!.events },
  ])
})

test('an event that is too large for NATS is refused, and its change is rolled back', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  const event = suspended('acct_a', 2)
  event.payload.value.status = 'x'.repeat(600_000)
  const change = transaction(sql, (tx) => append(tx, suspended('acct_a', 1), event))
  await expect(change).rejects.toThrow('600')
  expect(await sql`select from outbox`).toHaveLength(0)
})

test('a relay waits for another relay, and moves the events that are left', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1), suspended('acct_a', 2)))
  const [holder, other] = [await sql.reserve(), await sql.reserve()]
  const first = await moved(holder, { each: 1 })
  const waiting = moved(other)
  await eventually(async () => expect(await lockWaits(sql)).toBe(1))
  await commit(holder)
  const second = await waiting
  await commit(other)
  expect([contentsOf(first), contentsOf(second)]).toEqual([['acct_a 1'], ['acct_a 2']])
  expect([first, second].flat().map(({ number }) => number)).toEqual([1n, 2n])
  holder.release()
  other.release()
})

test('events that were committed before an epoch began are marked, even if the clock of their server was ahead', async () => {
  await using given = await givenOutbox()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1)))
  await sql`update outbox set created_at = created_at + interval '1 hour'`
  await sql`update event_log_epochs set incarnation = 'of an earlier start'`
  await beginEpoch(sql)
  const connection = await sql.reserve()
  const before = await moved(connection)
  await commit(connection)
  await sql.begin((tx) => append(tx, suspended('acct_a', 2)))
  const after = await moved(connection)
  await commit(connection)
  connection.release()
  expect([before, after].flat()).toMatchObject([{ precedes_epoch: true }, { precedes_epoch: false }])
})

test('PostgreSQL gathers no statistics of the outbox, and takes no exclusive lock to truncate it when it is empty', async () => {
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
  // A threshold that no table reaches.
  expect(row!.options).toContain('autovacuum_analyze_threshold=2147483647')
})
