import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { inOrderOf, insertRows, rowsOf } from './row-queries.ts'

const texts = [
  '',
  'null',
  'NULL',
  '{}',
  '{a,b}',
  'a,b',
  '"',
  '\\',
  '\\"',
  "'",
  'a\nb\t',
  '\\x00',
  'ä 🙂',
  ' ',
  '%',
]

async function givenTable() {
  await using started = new AsyncDisposableStack()
  const database = started.use(await createTestDatabase())
  const sql = connect(database.url, { name: 'test', max: 1 })
  started.defer(() => sql.end({ timeout: 5 }))
  await sql`
    create table things (
      id bigint primary key, name text, at timestamptz, bytes bytea, small smallint, flag boolean default true,
      list text[], json jsonb
    )`
  const running = started.move()
  return { sql, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

const columns = {
  id: 'bigint',
  name: 'text',
  at: 'timestamptz',
  bytes: 'bytea',
  small: 'smallint',
  flag: 'boolean',
  list: 'text[]',
  json: 'jsonb',
} as const

const rows = texts.map((name, at) => ({
  id: 2n ** 60n + BigInt(at),
  name,
  at: new Date(1_700_000_000_123 + at),
  bytes: Buffer.from([0, 92, 34, at]),
  small: at - 3,
  flag: at % 2 === 0,
  list: texts.slice(at),
  json: { [name]: texts, n: at, nothing: null },
}))

test.each([
  ['types', columns],
  ['a table', 'things'],
] as const)('rows with %s arrive as they are, in their order', async (_, given) => {
  await using table = await givenTable()
  const { sql } = table
  const nothing = Object.fromEntries(Object.keys(columns).map((name) => [name, null]))
  const passed = [...rows, { ...nothing, name: undefined }] as typeof rows
  const found = await sql`
    select id, name, at, bytes, small, flag, list, json, ordinality from ${rowsOf(sql, given, passed)} given
    order by ordinality`
  const expected = [...rows, nothing].map((row, at) => ({ ...row, ordinality: BigInt(at + 1) }))
  expect([...found]).toEqual(expected)
  expect(await sql`select from ${rowsOf(sql, given, [])} given`).toHaveLength(0)
})

test('inserted rows arrive as they are, and omitted columns get their defaults', async () => {
  await using table = await givenTable()
  const { sql } = table
  expect(await insertRows(sql, 'things', rows)).toBe(rows.length)
  expect([...(await sql`select * from things order by id`)]).toEqual(rows)
  const again = rows.slice(0, 2).map(({ id }) => ({ id: id - 1n }))
  expect(await insertRows(sql, 'things', again, sql`on conflict do nothing`)).toBe(1)
  expect(await sql`select id, flag from things where name is null`).toEqual([
    { id: again[0]!.id, flag: true },
  ])
  expect(await insertRows(sql, 'things', [])).toBe(0)
})

test('rows are sorted into the order of their requests', () => {
  const found = [
    { ordinality: 3n, id: 'c' },
    { ordinality: 1n, id: 'a' },
  ]
  expect(inOrderOf(['a', 'b', 'c'], found).map((row) => row?.id)).toEqual(['a', undefined, 'c'])
})
