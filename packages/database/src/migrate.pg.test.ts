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
  await eventually(async () => {
    const waiting = await other`
      select 1 from pg_stat_activity where application_name = 'replica' and wait_event = 'advisory'
        and clock_timestamp() - query_start > interval '1.5 seconds'`
    expect(waiting).toHaveLength(1)
  })
  expect(steps).toEqual(['migration test/0002-second.sql'])
  await other`select pg_advisory_unlock(${locks.migration})`
  expect(await migrated).toEqual(['test/0002-second.sql'])
  const [settings] = await sql`select current_setting('statement_timeout') as statement`
  expect(settings).toEqual({ statement: '1s' })
  await Promise.all([sql.end(), other.end()])
})
