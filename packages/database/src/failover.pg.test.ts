import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres, startStandby } from '@licensing/test-support/postgres'
import { startRecoveringPostgres } from '@licensing/test-support/recovering-postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect } from './connect.ts'
import { isDatabaseOutage, isDatabaseUnavailable } from './problems.ts'
import { transaction } from './transaction.ts'

const started = new AsyncDisposableStack()
let primary: Awaited<ReturnType<typeof startOwnPostgres>>
let standby: typeof primary

beforeAll(async () => {
  primary = started.use(await startOwnPostgres())
  standby = started.use(await startStandby(primary))
})
afterAll(() => started.disposeAsync())

/** The URL of the database `postgres` on several servers, each at 127.0.0.1 or a proxy. */
const urlOf = (...ports: number[]) =>
  primary.url().replace(/127\.0\.0\.1:\d+/, ports.map((port) => `127.0.0.1:${port}`).join(','))

const portOf = async (sql: ReturnType<typeof connect>) => {
  const [row] = await sql<{ port: number }[]>`select inet_server_port() as port`
  return row!.port
}

/** Makes commits on the primary wait for this standby. */
async function replicateTo(sql: ReturnType<typeof connect>, standby: string): Promise<void> {
  await sql.unsafe(`alter system set synchronous_standby_names = '${standby}'`)
  await sql`select pg_reload_conf()`
  await eventually(async () => {
    expect(await sql`show synchronous_standby_names`).toEqual([{ synchronous_standby_names: standby }])
  })
}

test('a pool connects to the server that accepts writes, whichever is named first', async () => {
  for (const ports of [
    [standby.port, primary.port],
    [primary.port, standby.port],
    [1, standby.port, primary.port],
  ]) {
    const sql = connect(urlOf(...ports), { name: 'order', max: 3 })
    expect(await Promise.all([portOf(sql), portOf(sql), portOf(sql)])).toEqual(Array(3).fill(primary.port))
    await sql.end()
  }
})

test('if only a standby is available, a statement fails as unavailable and its error names the standby', async () => {
  const sql = connect(urlOf(1, standby.port), { name: 'standby', max: 1 })
  const failure: unknown = await sql`select 1`.catch((error: unknown) => error)
  expect(failure).toSatisfy(isDatabaseOutage)
  expect(String(failure)).toContain(`127.0.0.1:${standby.port} is not the primary`)
  await sql.end({ timeout: 1 })
})

test('while one server is starting, the next one is used, and no statement fails', async () => {
  await using starting = await startRecoveringPostgres(`127.0.0.1:${primary.port}`)
  starting.recover()
  const sql = connect(urlOf(starting.port, primary.port), { name: 'starting', max: 3 })
  await Promise.all([portOf(sql), portOf(sql), portOf(sql)])
  expect(starting.refused).toBe(3)
  await sql.end()
})

test('a connection on which a write was refused because the server is read-only is replaced', async () => {
  const sql = connect(primary.url(), { name: 'read-only', max: 1 })
  const pid = async () => (await sql<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]!.pid
  const before = await pid()
  const write = sql.begin('read only', (tx) => tx`create table never (id int)`)
  await expect(write).rejects.toMatchObject({ code: '25006' })
  const after = await pid()
  expect(after).not.toBe(before)
  await sql`set default_transaction_read_only = on`
  await expect(transaction(sql, (tx) => tx`create table never (id int)`)).rejects.toSatisfy(isDatabaseOutage)
  expect(await pid()).not.toBe(after)
  await sql.end()
})

test('a commit whose wait for the standby was cancelled is not acknowledged', async () => {
  const sql = connect(primary.url(), { name: 'unconfirmed', max: 1 })
  const admin = connect(primary.url(), { name: 'admin', max: 1 })
  await sql`create table unconfirmed (id int)`
  await replicateTo(admin, 'nobody')
  const cancel = () =>
    eventually(async () => {
      const { count } = await admin`
        select pg_cancel_backend(pid) from pg_stat_activity
        where application_name = 'unconfirmed' and wait_event = 'SyncRep'`
      expect(count).toBe(1)
    })
  try {
    for (const commit of [
      () => sql`insert into unconfirmed values (1)`,
      () => transaction(sql, (tx) => tx`insert into unconfirmed values (2)`),
    ]) {
      const failure = commit().then(
        () => undefined,
        (error: unknown) => error,
      )
      await cancel()
      expect(await failure).toMatchObject({ routine: 'SyncRepWaitForLSN' })
      expect(await failure).toSatisfy(isDatabaseUnavailable)
    }
    // They may have been executed.
    expect(await sql`select id from unconfirmed`).toEqual([{ id: 1 }, { id: 2 }])
  } finally {
    await replicateTo(admin, '')
    await Promise.all([sql.end({ timeout: 1 }), admin.end({ timeout: 1 })])
  }
})

test('a slow statement is not interrupted while the server is asked whether it knows the session', async () => {
  const sql = connect(primary.url(), { name: 'slow', max: 2 })
  expect(await sql`select 1 as one from pg_sleep(4.5)`).toEqual([{ one: 1 }])
  await sql.end()
})

// Last, because it promotes the standby.
test('after the network to the leader is cut, a promoted standby is written to within 10 seconds, and no commit is lost', async () => {
  await using proxy = await startFaultyProxy(`127.0.0.1:${primary.port}`)
  const sql = connect(urlOf(proxy.port, standby.port), { name: 'failover', max: 4 })
  const atStandby = connect(standby.url(), { name: 'operator', max: 1 })
  const admin = connect(primary.url(), { name: 'admin', max: 1 })
  const promoting = postgres(standby.url(), { max: 1 })
  await admin`create table written (id int primary key)`
  await replicateTo(admin, 'standby')
  await eventually(async () => {
    const rows = await admin`select from pg_stat_replication where sync_state = 'sync'`
    expect(rows).toHaveLength(1)
  })
  const committed: number[] = []
  const problems: unknown[] = []
  const load = { running: true, next: 0 }
  const writers = Array.from({ length: 12 }, async () => {
    while (load.running) {
      const id = load.next++
      try {
        await transaction(sql, (tx) => tx`insert into written values (${id})`)
        committed.push(id)
      } catch (error) {
        problems.push(error)
      }
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })
  await eventually(() => committed.length > 100)
  proxy.swallow()
  await promoting`select pg_promote()`
  const before = committed.length
  const promotedMs = performance.now()
  await eventually(() => committed.length > before + 50, { intervalMs: 50 })
  expect(performance.now() - promotedMs).toBeLessThan(10_000)
  load.running = false
  await Promise.all(writers)
  expect(problems.filter((error) => !isDatabaseUnavailable(error))).toEqual([])
  const stored = new Set((await atStandby<{ id: number }[]>`select id from written`).map(({ id }) => id))
  expect(committed.filter((id) => !stored.has(id))).toEqual([])
  await Promise.all([sql, atStandby, admin, promoting].map((each) => each.end({ timeout: 1 })))
})
