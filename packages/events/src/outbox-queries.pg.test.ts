import type { Sql } from '@licensing/database/connect'
import { sendTogether } from '@licensing/database/send-together'
import { expect, test } from 'vitest'
import { append } from './outbox.ts'
import { begin, beginEpoch, commit, findState, listShares, lockRelay, moveToLog } from './outbox-queries.ts'
import type { OutboxRow } from './outbox-queries.ts'
import { givenDatabase, suspended, upTo } from './testing/given.ts'

/** The first events to publish, as a relay finds them. */
async function listed(connection: Sql) {
  const [, , rows] = await sendTogether(
    begin(connection),
    lockRelay(connection),
    listShares(connection, { after: '', each: 20, limit: 100 }),
    commit(connection),
  )
  return rows
}

/** Moves them to the log as one batch of partition 0. */
async function moved(connection: Sql, rows: OutboxRow[]): Promise<void> {
  const [, , [from]] = await sendTogether(begin(connection), lockRelay(connection), findState(connection))
  if (!from!.epoch) await beginEpoch(connection, 'epoch')
  const to = [from!.numbers[0]! + 1n, ...from!.numbers.slice(1)]
  const batches = [{ partition: 0, number: to[0]!, bytes: Buffer.from('batch') }]
  const [answer] = await sendTogether(
    moveToLog(connection, { from: { ...from!, epoch: 'epoch' }, to, rows, batches }),
    commit(connection),
  )
  expect(answer.count).toBe(1)
}

test('numbered events are deleted by their places, and no index is read for it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, ...upTo(200).map((number) => suspended(`acct_${number % 7}`, number))))
  const connection = await sql.reserve()
  const indexPagesRead = async () => {
    await connection`select pg_stat_force_next_flush()`
    const [row] = await connection<{ pages: number }[]>`
      select idx_blks_hit::int as pages from pg_statio_user_tables where relname = 'outbox'`
    return row!.pages
  }
  const pages: number[] = []
  for (const left of [100, 16]) {
    const rows = await listed(connection)
    const before = await indexPagesRead()
    await moved(connection, rows)
    pages.push((await indexPagesRead()) - before)
    expect(await sql`select from outbox`).toHaveLength(left)
  }
  connection.release()
  // Once: where PostgreSQL has just looked at the table, the planner reads the first page of each index again.
  expect(pages).toContain(0)
})

test('an event that was inserted at the place of a numbered one is not deleted with it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const connection = await sql.reserve()
  await sql.begin((tx) => append(tx, suspended('acct_a', 1), suspended('acct_a', 2)))
  const rows = await listed(connection)
  // An operator deletes them while they are published, and PostgreSQL gives their place to others.
  await sql`delete from outbox`
  await sql`vacuum outbox`
  await sql.begin((tx) => append(tx, suspended('acct_b', 1), suspended('acct_b', 2)))
  const later = await listed(connection)
  expect(later.map(({ place }) => place)).toEqual(rows.map(({ place }) => place))
  await moved(connection, rows)
  expect(await listed(connection)).toEqual(later)
  connection.release()
})

test('a relay that has to leave the events to another reads none of them', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1)))
  const [holder, other] = [await sql.reserve(), await sql.reserve()]
  await sendTogether(begin(holder), lockRelay(holder))
  expect(await listed(other)).toEqual([])
  await commit(holder)
  expect(await listed(other)).toHaveLength(1)
  holder.release()
  other.release()
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
