import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { createTestDatabase } from '@licensing/test-support/database'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import postgres from 'postgres'
import { describe, expect, test } from 'vitest'
import { connect } from './connect.ts'
import { prepareDatabase } from './prepare.ts'
import { isDatabaseUnavailable } from './problems.ts'
import { transaction, withoutTimeLimit } from './transaction.ts'

// Statements may take 0.2 s, and 5 s pass on the network; the driver looks once a second.
const statementTimeoutMs = 200
const limitMs = 8_000

/** A pool behind a proxy, with all of its connections open. */
async function givenPool({ max }: { max: number }) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const url = new URL(database.url)
  const proxy = starting.use(await startFaultyProxy(url.host))
  url.port = String(proxy.port)
  const sql = connect(url.href, { name: 'silent', max, statementTimeoutMs })
  const others = connect(database.url, { name: 'others', max: 1 })
  starting.defer(async () => void (await Promise.all([sql.end({ timeout: 1 }), others.end()])))
  await others`create table written (id int primary key)`
  const held = await Promise.all(Array.from({ length: max }, () => sql.reserve()))
  for (const connection of held) connection.release()
  const running = starting.move()
  return { url: url.href, sql, others, proxy, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** Statements, reservations and transactions, more than the pool has connections. */
function manyWorks(sql: Awaited<ReturnType<typeof givenPool>>['sql'], count: number): Promise<unknown>[] {
  return Array.from({ length: count }, async (_, at) => {
    if (at % 5 === 1) return transaction(sql, (tx) => tx`insert into written (id) values (${at})`)
    if (at % 5 !== 2) return sql`select ${at}::int`
    const connection = await sql.reserve()
    try {
      return await connection`select ${at}::int`
    } finally {
      connection.release()
    }
  })
}

async function outcomesOf(works: Promise<unknown>[]) {
  const startedMs = performance.now()
  const outcomes = await Promise.allSettled(works)
  const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
  return { failures, tookMs: performance.now() - startedMs }
}

describe.concurrent('silent connections', () => {
  test('statements on connections that became silent fail as unavailable, and the pool replaces the connections', async () => {
    await using given = await givenPool({ max: 10 })
    given.proxy.silence()
    const { failures, tookMs } = await outcomesOf(manyWorks(given.sql, 375))
    expect(tookMs).toBeLessThan(limitMs)
    expect(failures.length).toBeGreaterThan(0)
    expect(failures.filter((error) => !isDatabaseUnavailable(error))).toEqual([])
    const after = await outcomesOf(manyWorks(given.sql, 375))
    expect(after.failures.filter((error) => !String(error).includes('duplicate key'))).toEqual([])
    expect(given.proxy.accepted).toBeGreaterThanOrEqual(20)
  })

  test('while no server answers, also new connections, each statement fails as unavailable', async () => {
    await using given = await givenPool({ max: 3 })
    given.proxy.swallow()
    const { failures, tookMs } = await outcomesOf(manyWorks(given.sql, 375))
    expect(failures.filter(isDatabaseUnavailable)).toHaveLength(375)
    expect(tookMs).toBeLessThan(2 * limitMs)
    given.proxy.flow()
    await eventually(async () => expect(await given.sql`select 1 as one`).toEqual([{ one: 1 }]))
  })

  test('the process is not alive while all connections of a pool are silent, and again when they are replaced', async () => {
    await using given = await givenPool({ max: 3 })
    const health = new Health()
    const stopping = new AbortController()
    const log = createLogger('test', 'silent')
    await prepareDatabase(
      { sql: given.others, otherPools: [given.sql], health, log, step: () => {}, stopping: stopping.signal },
      async () => {},
    )
    expect(health.lifeProblem).toBeNull()
    given.proxy.silence()
    const works = outcomesOf(manyWorks(given.sql, 20))
    await eventually(() => expect(health.lifeProblem).toBe('the database does not answer'))
    await works
    await given.sql`select 1`
    expect(health.lifeProblem).toBeNull()
    stopping.abort()
  })

  test('a COMMIT without an answer fails as unavailable, although it may have been executed', async () => {
    await using given = await givenPool({ max: 1 })
    const work = transaction(given.sql, async (tx) => {
      await tx`insert into written (id) values (1)`
      given.proxy.swallow('to-client')
    })
    await expect(work).rejects.toSatisfy(isDatabaseUnavailable)
    given.proxy.flow()
    expect(await given.others`select id from written`).toEqual([{ id: 1 }])
    expect(await given.sql`select 1 as one`).toEqual([{ one: 1 }])
  })

  test('a BEGIN without an answer fails as unavailable, and nothing is executed', async () => {
    await using given = await givenPool({ max: 1 })
    given.proxy.swallow('to-server')
    const work = transaction(given.sql, (tx) => tx`insert into written (id) values (1)`)
    await expect(work).rejects.toSatisfy(isDatabaseUnavailable)
    given.proxy.flow()
    expect(await given.others`select id from written`).toEqual([])
  })

  test('a transaction without time limit may wait for its answer for longer', async () => {
    await using given = await givenPool({ max: 1 })
    const slept = await transaction(given.sql, async (tx) => {
      await withoutTimeLimit(tx)
      return tx`select 1 as one from pg_sleep(8)`
    })
    expect(slept).toEqual([{ one: 1 }])
    given.proxy.silence()
    await expect(given.sql`select 1`).rejects.toSatisfy(isDatabaseUnavailable)
  })

  test('an idle connection that reaches its age while it is silent is replaced', async () => {
    await using given = await givenPool({ max: 1 })
    const sql = postgres(given.url, { max: 1, max_lifetime: 0.2, answer_timeout: 1 })
    await sql`select 1`
    given.proxy.silence()
    await eventually(async () => expect(await sql`select 1 as one`).toEqual([{ one: 1 }]))
    await sql.end({ timeout: 1 })
  })
})

test('a statement fails as unavailable if each server accepts its connection and closes it', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  for (const hosts of [address, `${address},${address}`]) {
    const sql = connect(`postgres://user@${hosts}/nowhere`, { name: 'closed', max: 1 })
    await expect(sql`select 1`).rejects.toSatisfy(isDatabaseUnavailable)
    await sql.end({ timeout: 1 })
  }
  server.close()
})

test('a statement fails as unavailable if each of several servers refuses its connection', async () => {
  const sql = connect('postgres://user@127.0.0.1:1,127.0.0.1:2/nowhere', { name: 'refused', max: 1 })
  await expect(sql`select 1`).rejects.toSatisfy(isDatabaseUnavailable)
  await sql.end({ timeout: 1 })
})
