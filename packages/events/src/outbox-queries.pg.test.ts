import { sendTogether } from '@licensing/database/send-together'
import { expect, test } from 'vitest'
import { append } from './outbox.ts'
import { begin, commit, deletePublished, listShares, lockRelay } from './outbox-queries.ts'
import { givenDatabase, suspended, upTo } from './testing/given.ts'

const first = { after: '', without: [], each: 20, limit: 100 }

test('published events are deleted where they lie, and no index is read for it', async () => {
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
    const rows = await listShares(connection, first)
    const before = await indexPagesRead()
    await sendTogether(
      begin(connection),
      lockRelay(connection),
      deletePublished(connection, rows),
      commit(connection),
    )
    pages.push((await indexPagesRead()) - before)
    expect(await sql`select from outbox`).toHaveLength(left)
  }
  connection.release()
  // Once: where PostgreSQL has just looked at the table, the planner reads the first page of each index again.
  expect(pages).toContain(0)
})

test('an event that has come where a published one lay is not deleted with it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql.begin((tx) => append(tx, suspended('acct_a', 1), suspended('acct_a', 2)))
  const rows = await listShares(sql, first)
  // An operator deletes them while they are published, and PostgreSQL gives their place to others.
  await sql`delete from outbox`
  await sql`vacuum outbox`
  await sql.begin((tx) => append(tx, suspended('acct_b', 1), suspended('acct_b', 2)))
  const later = await listShares(sql, first)
  expect(later.map(({ place }) => place)).toEqual(rows.map(({ place }) => place))
  await deletePublished(sql, rows)
  expect(await listShares(sql, first)).toEqual(later)
})
