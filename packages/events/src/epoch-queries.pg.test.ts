import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { transaction } from '@licensing/database/transaction'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { sharedPostgresUrl } from '@licensing/test-support/shared-servers'
import { expect, test } from 'vitest'
import { currentEpoch, recordAlive } from './epoch-queries.ts'
import { outboxMigrations } from './migrations.ts'
import { givenDatabase } from './testing/given.ts'

const ordinalOf = async (sql: Database) => (await currentEpoch(sql)).ordinal

/** The state after a restore, a failover or a restart. */
async function whenReplaced(sql: Database): Promise<void> {
  await sql`update event_log_epochs set incarnation = 'of another server'`
}

/** A copy of a database, as a restored backup is one. */
async function copyOf(sql: Database, name: string) {
  await sql.end({ timeout: 5 })
  const admin = connect(sharedPostgresUrl(), { name: 'test', max: 1 })
  const url = new URL(sharedPostgresUrl())
  url.pathname = `/${name}_copy`
  await admin`create database ${admin(`${name}_copy`)} template ${admin(name)}`
  const copy = connect(url.href, { name: 'test', max: 3 })
  return {
    sql: copy,
    [Symbol.asyncDispose]: async () => {
      await copy.end({ timeout: 5 })
      await admin`drop database ${admin(`${name}_copy`)} with (force)`
      await admin.end({ timeout: 5 })
    },
  }
}

test('the first epoch of a new database is 1, and lasts while the server runs', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const before = new Date(Date.now() - 60_000)
  const first = await currentEpoch(sql)
  expect(first.ordinal).toBe(1n)
  expect(first.aliveAt.getTime()).toBeGreaterThan(before.getTime())
  await recordAlive(sql)
  expect(await currentEpoch(sql)).toEqual(first)
})

test('a restart of PostgreSQL begins an epoch whose ordinal no count since the previous one can have reached', async () => {
  await using server = await startOwnPostgres()
  const open = async () => {
    const sql = connect(server.url(), { name: 'test', max: 2 })
    await eventually(() => sql`select`)
    return sql
  }
  let sql = await open()
  const ordinals: bigint[] = []
  await migrate(sql, [outboxMigrations])
  for (const end of ['stop', 'kill'] as const) {
    ordinals.push(await ordinalOf(sql))
    await sql.end({ timeout: 5 })
    await server[end]()
    await server.start()
    sql = await open()
  }
  ordinals.push(await ordinalOf(sql))
  await sql.end({ timeout: 5 })
  expect(ordinals[0]).toBe(1n)
  expect(ordinals[1]).toBeGreaterThan(BigInt(Date.now() - 60_000))
  expect(ordinals[2]).toBeGreaterThan(ordinals[1]!)
})

test('a restored copy of a database begins its own epoch, later than each of the lost time, and knows until when it remembers', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const name = new URL(given.databaseUrl).pathname.slice(1)
  await currentEpoch(sql)
  await sql`update event_log_state set alive_at = now() - interval '3 days'`
  await recordAlive(sql)
  const [alive] = await sql<{ at: Date }[]>`select alive_at as at from event_log_state`
  await using copy = await copyOf(sql, name)
  const original = connect(given.databaseUrl, { name: 'test', max: 1 })
  await whenReplaced(original)
  const lost = await currentEpoch(original)
  await original.end({ timeout: 5 })
  const restored = await currentEpoch(copy.sql)
  expect(restored.ordinal).toBeGreaterThan(lost.ordinal)
  expect(restored.aliveAt).toEqual(alive!.at)
  // A service that remembers the epoch of the lost time.
  expect(await currentEpoch(copy.sql, lost.ordinal)).toEqual(restored)
})

test('a service that remembers an epoch learns the earliest loss since then, however many epochs have begun', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const remembered = await ordinalOf(sql)
  await sql`update event_log_state set alive_at = '2026-01-01T00:00:00Z'`
  await whenReplaced(sql)
  const second = await currentEpoch(sql, remembered)
  await recordAlive(sql)
  await whenReplaced(sql)
  const third = await currentEpoch(sql, remembered)
  expect(third.ordinal).toBeGreaterThan(second.ordinal)
  expect([second, third].map(({ aliveAt }) => aliveAt.toISOString())).toEqual([
    '2026-01-01T00:00:00.000Z',
    '2026-01-01T00:00:00.000Z',
  ])
  const sinceSecond = await currentEpoch(sql, second.ordinal)
  expect(sinceSecond.aliveAt.getTime()).toBeGreaterThan(Date.now() - 60_000)
  expect(await currentEpoch(sql, third.ordinal)).toEqual(sinceSecond)
})

test('an epoch that another service has seen is never in the future: the next one is later, and remembers the same loss', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await currentEpoch(sql)
  await sql`update event_log_state set alive_at = '2026-01-01T00:00:00Z'`
  await whenReplaced(sql)
  const newest = await currentEpoch(sql)
  await recordAlive(sql)
  // The clock of the lost server was a day ahead.
  const seen = newest.ordinal + 86_400_000n
  const next = await currentEpoch(sql, seen)
  expect(next.ordinal).toBeGreaterThan(seen)
  expect(next.aliveAt).toEqual(newest.aliveAt)
  expect(await currentEpoch(sql, seen)).toEqual(next)
})

test('the time at which the database was alive is not renewed before a lost time has its epoch', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await currentEpoch(sql)
  await sql`update event_log_state set alive_at = '2026-01-01T00:00:00Z'`
  await whenReplaced(sql)
  await recordAlive(sql)
  expect((await currentEpoch(sql)).aliveAt.toISOString()).toBe('2026-01-01T00:00:00.000Z')
})

test('of two transactions at the same time one begins the epoch, and both are in it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await ordinalOf(sql)
  await whenReplaced(sql)
  const [first, second] = [await sql.reserve(), await sql.reserve()]
  await first`begin`
  const [begun] = await first<{ ordinal: bigint }[]>`select current_epoch() as ordinal`
  const waiting = second<{ ordinal: bigint }[]>`select current_epoch() as ordinal`.execute()
  await eventually(async () => expect(await lockWaits(sql)).toBe(1))
  await first`commit`
  expect(await waiting).toMatchObject([begun])
  expect(await sql`select from event_log_epochs`).toHaveLength(2)
  first.release()
  second.release()
})

test('if the transaction that begins an epoch is rolled back, the next one begins it', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const earlier = await ordinalOf(sql)
  await whenReplaced(sql)
  const failed = transaction(sql, async (tx) => {
    await tx`select current_epoch()`
    throw new Error('the change failed')
  })
  await expect(failed).rejects.toThrow('the change failed')
  expect(await sql`select from event_log_epochs`).toHaveLength(1)
  expect(await ordinalOf(sql)).toBeGreaterThan(earlier)
})

test('a counter that a trigger raises with the epoch repeats no number of a lost time', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await sql`create table lists (version bigint not null)`
  await sql.unsafe(`
    create function raise_version() returns trigger language plpgsql as $$
    begin
      new.version = greatest(old.version + 1, current_epoch());
      return new;
    end $$;
    create trigger raise_version before update on lists for each row execute function raise_version()`)
  await sql`insert into lists values (0)`
  const raised = async () => {
    const [row] = await sql<{ version: bigint }[]>`update lists set version = version returning version`
    return row!.version
  }
  expect([await raised(), await raised(), await raised()]).toEqual([1n, 2n, 3n])
  await whenReplaced(sql)
  const lost = [await raised(), await raised()]
  await sql`delete from event_log_epochs where ordinal > 1`
  await sql`update lists set version = 2`
  const again = [await raised(), await raised()]
  expect(lost[1]).toBe(lost[0]! + 1n)
  expect(again[0]).toBeGreaterThan(lost[1]!)
  expect(again[1]).toBe(again[0]! + 1n)
})
