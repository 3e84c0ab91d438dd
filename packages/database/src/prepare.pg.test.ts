import { Health } from '@licensing/process/health'
import { createTestDatabase } from '@licensing/test-support/database'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { startRecoveringPostgres } from '@licensing/test-support/recovering-postgres'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '@licensing/process/log'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { migrate } from './migrate.ts'
import { prepareDatabase } from './prepare.ts'

async function givenFolder(text: string) {
  const path = await mkdtemp(join(tmpdir(), 'migrations-'))
  await writeFile(join(path, '0001-first.sql'), text)
  return { name: 'test', path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

/** The arguments of a start, with a proxy that can make its database unavailable. */
async function givenStart<Between extends AsyncDisposable & { port: number }>(
  through: (target: string) => Promise<Between>,
) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const url = new URL(database.url)
  const between = starting.use(await through(url.host))
  url.port = String(between.port)
  const sql = connect(url.href, { name: 'start', max: 3 })
  const others = connect(database.url, { name: 'others', max: 1 })
  starting.defer(async () => void (await Promise.all([sql.end({ timeout: 1 }), others.end()])))
  const lines: string[] = []
  const write = (level: string) => (first: unknown, text?: string) =>
    void lines.push(`${level}: ${text ?? String(first)}`)
  const log = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Logger
  const steps: string[] = []
  const stopping = new AbortController()
  const running = starting.move()
  const health = new Health()
  return {
    sql,
    others,
    between,
    url,
    lines,
    steps,
    health,
    stop: () => stopping.abort(),
    start: { sql, health, log, step: (name: string) => void steps.push(name), stopping: stopping.signal },
    probe: async () => (await health.check(500)).probes['database'],
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('while PostgreSQL recovers, a start waits, logs one line, names its step, and no probe queries the database; then it continues', async () => {
  await using given = await givenStart(startRecoveringPostgres)
  await using folder = await givenFolder('create table first (id int)')
  const { between, start, lines, steps, probe } = given
  between.recover()
  const prepared = prepareDatabase(start, () => migrate(start.sql, [folder], start.step))
  await eventually(() => between.refused >= 5)
  expect(await probe()).toBe('is unavailable: the database system is starting up')
  const [refused, probes] = [between.refused, await Promise.all(Array.from({ length: 20 }, probe))]
  expect(new Set(probes)).toEqual(new Set(['is unavailable: the database system is starting up']))
  expect(between.refused - refused).toBeLessThan(20)
  between.recovered()
  await prepared
  expect(lines).toEqual([
    'warn: start waits for the database, which is unavailable',
    'info: the database is available, start goes on',
  ])
  expect(steps.filter((step) => step === 'waiting for the database').length).toBeGreaterThanOrEqual(4)
  expect(await probe()).toBeNull()
  expect(await given.sql`select id from first`).toEqual([])
})

test('if the database becomes unavailable during a migration, the start waits for it and applies the migration once', async () => {
  await using given = await givenStart(startFaultyProxy)
  await using folder = await givenFolder('create table first (id int); select pg_sleep(0.3);')
  const { between, start, lines, others } = given
  const prepared = prepareDatabase(start, () => migrate(start.sql, [folder], start.step))
  const sleeping = () => others`
    select 1 from pg_stat_activity where application_name = 'start' and query like '%pg_sleep%' and state = 'active'`
  await eventually(async () => expect(await sleeping()).toHaveLength(1), { intervalMs: 10 })
  between.refuse()
  await eventually(() => lines.length > 0)
  between.flow()
  await prepared
  expect(lines).toEqual([
    'warn: start waits for the database, which is unavailable',
    'info: the database is available, start goes on',
  ])
  expect(await others`select name from migrations`).toEqual([{ name: 'test/0001-first.sql' }])
})

test('a wrong password or a database that does not exist fails the start at once', async () => {
  await using given = await givenStart(startFaultyProxy)
  const wrongPassword = new URL(given.url)
  wrongPassword.password = 'wrong'
  const noDatabase = new URL(given.url)
  noDatabase.pathname = '/nowhere'
  for (const [url, problem] of [
    [wrongPassword, /password authentication failed/],
    [noDatabase, /database "nowhere" does not exist/],
  ] as const) {
    const sql = connect(url.href, { name: 'start', max: 2 })
    await expect(prepareDatabase({ ...given.start, sql }, async () => {})).rejects.toThrow(problem)
    await sql.end({ timeout: 1 })
  }
  expect(given.lines).toEqual([])
})

test('a stop ends the wait for a database', async () => {
  await using given = await givenStart(startRecoveringPostgres)
  const { between, start, stop } = given
  between.recover()
  const outcome = prepareDatabase(start, async () => {}).catch((error: unknown) => error)
  await eventually(() => between.refused >= 2)
  stop()
  expect(await outcome).toBeInstanceOf(Error)
})

test('a pool whose connections are all in use is ready, because the probe has its own connection', async () => {
  await using given = await givenStart(startFaultyProxy)
  await using folder = await givenFolder('create table first (id int)')
  const { sql, start, probe } = given
  await prepareDatabase(start, () => migrate(sql, [folder], start.step))
  const held = await Promise.all([1, 2, 3].map(() => sql.reserve()))
  try {
    expect(await probe()).toBeNull()
  } finally {
    for (const connection of held) connection.release()
  }
  given.stop()
})
