import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'
import { transaction } from './transaction.ts'

test('transactions that deadlock are tried again, and all of them end committed', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'deadlock', max: 4 })
  await sql`create table counter (id int primary key, value int not null)`
  await sql`insert into counter values (1, 0), (2, 0)`
  const add = (first: number, second: number) =>
    transaction(sql, async (tx) => {
      await tx`update counter set value = value + 1 where id = ${first}`
      await tx`select pg_sleep(0.01)`
      await tx`update counter set value = value + 1 where id = ${second}`
    })
  for (let round = 0; round < 3; round += 1) await Promise.all([add(1, 2), add(2, 1)])
  const rows = await sql<{ value: number }[]>`select value from counter`
  expect(rows.map((row) => row.value)).toEqual([6, 6])
  await sql.end()
})

test('what the work throws rolls back and reaches the caller', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'rollback', max: 2 })
  await sql`create table counter (id int primary key)`
  const work = transaction(sql, async (tx) => {
    await tx`insert into counter values (1)`
    throw new Error('no')
  })
  await expect(work).rejects.toThrow('no')
  expect(await sql`select id from counter`).toHaveLength(0)
  await sql.end()
})

test('a wait for a lock ends after its limit, as something that passes', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'lock', max: 2, lockTimeoutMs: 50 })
  await sql`create table counter (id int primary key)`
  await sql`insert into counter values (1)`
  await transaction(sql, async (tx) => {
    await tx`select id from counter for update`
    const waiting = sql`delete from counter`.then(
      () => 'deleted',
      (error: unknown) => isDatabaseUnavailable(error),
    )
    expect(await waiting).toBe(true)
  })
  await sql.end()
})
