import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { locks } from './locks.ts'
import { migrate } from './migrate.ts'

async function givenFolder(files: Record<string, string>) {
  const path = await mkdtemp(join(tmpdir(), 'migrations-'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text)
  return { name: 'test', path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

test('if five replicas start at once, one applies each migration and the others wait for it', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({
    '0001-first.sql': 'create table first (id int); select pg_sleep(0.2);',
    '0002-second.sql': 'create table second (id int);',
  })
  const pools = Array.from({ length: 5 }, () => connect(database.url, { name: 'replica', max: 2 }))
  const applied = await Promise.all(pools.map((sql) => migrate(sql, [folder])))
  expect(applied.flat().sort()).toEqual(['test/0001-first.sql', 'test/0002-second.sql'])
  await Promise.all(pools.map((sql) => sql.end()))
})

test('a migration that fails is rolled back, and is applied when it is corrected', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({ '0001-first.sql': 'create table first (id int); select 1/0;' })
  const sql = connect(database.url, { name: 'replica', max: 2 })
  await expect(migrate(sql, [folder])).rejects.toThrow('division by zero')
  await writeFile(join(folder.path, '0001-first.sql'), 'create table first (id int);')
  expect(await migrate(sql, [folder])).toEqual(['test/0001-first.sql'])
  expect(await migrate(sql, [folder])).toEqual([])
  await sql.end()
})

test('an applied migration that was edited afterwards is refused; the error names it', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({ '0001-first.sql': 'create table first (id int);' })
  const sql = connect(database.url, { name: 'replica', max: 2 })
  await migrate(sql, [folder])
  await writeFile(join(folder.path, '0001-first.sql'), 'create table first (id bigint);')
  await expect(migrate(sql, [folder])).rejects.toThrow('test/0001-first.sql was edited')
  await sql.end()
})

test('a start without new migrations takes no lock; a start with one waits for the replica that migrates, longer than a statement may take, and names its step', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({ '0001-first.sql': 'create table first (id int);' })
  const sql = connect(database.url, { name: 'replica', max: 2, statementTimeoutMs: 1_000 })
  const other = connect(database.url, { name: 'other', max: 1 })
  await migrate(sql, [folder])
  // Replicas of the first releases hold the lock for their session.
  await other`select pg_advisory_lock(${locks.migration})`
  expect(await migrate(sql, [folder])).toEqual([])
  await writeFile(join(folder.path, '0002-second.sql'), 'create table second (id int);')
  const steps: string[] = []
  const migrated = migrate(sql, [folder], (step) => steps.push(step))
  const began = Date.now()
  await eventually(() => Date.now() - began > 1_500)
  expect(await other`select 1 from migrations where name = 'test/0002-second.sql'`).toHaveLength(0)
  expect(steps).toEqual(['migration test/0002-second.sql'])
  await other`select pg_advisory_unlock(${locks.migration})`
  expect(await migrated).toEqual(['test/0002-second.sql'])
  const [settings] = await sql`select current_setting('statement_timeout') as statement`
  expect(settings).toEqual({ statement: '1s' })
  await Promise.all([sql.end(), other.end()])
})

test('a migration that does not get its lock delays other statements for a second at most, and is applied when the lock is free', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({ '0001-first.sql': 'create table first (id int);' })
  const sql = connect(database.url, { name: 'replica', max: 4 })
  const longest = connect(database.url, { name: 'report', max: 1 })
  await migrate(sql, [folder])
  const report = await longest.reserve()
  await report`begin`
  await report`select from first`
  await writeFile(join(folder.path, '0002-second.sql'), 'alter table first add column name text;')
  const migrated = migrate(sql, [folder])
  const delays: number[] = []
  const began = Date.now()
  await eventually(async () => {
    const from = performance.now()
    await sql`select from first`
    delays.push(performance.now() - from)
    return Date.now() - began > 3_000
  })
  // It waited, in turns.
  expect(Math.max(...delays)).toBeGreaterThan(200)
  expect(Math.max(...delays)).toBeLessThan(2_500)
  await report`commit`
  report.release()
  expect(await migrated).toEqual(['test/0002-second.sql'])
  await Promise.all([sql.end(), longest.end()])
})

test('an index is built without a transaction while rows are written and other replicas wait, and again after an interruption', async () => {
  await using database = await createTestDatabase()
  await using folder = await givenFolder({ '0001-first.sql': 'create table first (id int, name text);' })
  const sql = connect(database.url, { name: 'replica', max: 4, statementTimeoutMs: 1_000 })
  const writer = connect(database.url, { name: 'writer', max: 1 })
  await migrate(sql, [folder])
  await writer`insert into first values (1, 'a')`
  const index = `-- without a transaction
drop index concurrently if exists first_name;
create index concurrently first_name on first (name);
`
  await writeFile(join(folder.path, '0002-index.sql'), index)
  // The build waits for this transaction.
  const open = await writer.reserve()
  await open`begin`
  await open`insert into first values (2, 'b')`
  const replicas = Array.from({ length: 3 }, () => connect(database.url, { name: 'replica', max: 2 }))
  const first = migrate(sql, [folder])
  const building = () => sql<{ pid: number }[]>`
    select pid from pg_stat_activity where query ~ 'index concurrently' and state = 'active'
      and pid <> pg_backend_pid()
      and clock_timestamp() - query_start > interval '1.5 seconds' and datname = current_database()`
  const [{ pid }] = (await eventually(async () => {
    const found = await building()
    return found.length > 0 && found
  })) as unknown as [{ pid: number }]
  await open`insert into first values (3, 'c')`
  // Like a replica that ends during the build: an invalid index remains.
  await sql`select pg_terminate_backend(${pid})`
  await expect(first).rejects.toThrow()
  const [left] = await sql`select indisvalid from pg_index where indexrelid = 'first_name'::regclass`
  expect(left).toEqual({ indisvalid: false })
  // A replica drops the invalid index, which waits for the open transaction too.
  const others = replicas.map((each) => migrate(each, [folder]))
  await eventually(async () => expect(await building()).toHaveLength(1))
  await open`commit`
  open.release()
  expect((await Promise.all(others)).flat()).toEqual(['test/0002-index.sql'])
  const [built] = await sql`select indisvalid from pg_index where indexrelid = 'first_name'::regclass`
  expect(built).toEqual({ indisvalid: true })
  await Promise.all([sql, writer, ...replicas].map((each) => each.end()))
})
