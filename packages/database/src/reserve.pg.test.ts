import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { startRecoveringPostgres } from '@licensing/test-support/recovering-postgres'
import postgres from 'postgres'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import type { Database } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'

async function givenPool(options: { max: number }) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const url = new URL(database.url)
  const server = starting.use(await startRecoveringPostgres(url.host))
  url.port = String(server.port)
  const sql = connect(url.href, { name: 'reserve', max: options.max })
  const others = connect(database.url, { name: 'others', max: 1 })
  starting.defer(async () => void (await Promise.all([sql.end({ timeout: 1 }), others.end()])))
  const running = starting.move()
  return { sql, others, server, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** The number of reservations that a pool grants at a time. */
async function reservable(sql: Database, most: number): Promise<number> {
  const reservations = await Promise.all(
    Array.from({ length: most }, async () => {
      const connection = await settled(sql.reserve())
      await settled(connection`select 1`)
      return connection
    }),
  )
  for (const connection of reservations) connection.release()
  return reservations.length
}

function settled<T>(work: PromiseLike<T>): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error('not settled in 30 s')), 30_000).unref()
    }),
  ])
}

// Without our patch, postgres 3.4.9 drops the reservation, and its promise never settles.
test.for([1, 4])(
  'a reservation that waits while the first connection is refused is granted by the next one (pool of %i)',
  async (max) => {
    await using given = await givenPool({ max })
    const { sql, server } = given
    server.recover(1)
    const probe = sql`select 1`.catch((error: unknown) => error)
    // The driver starts a query in the next microtask, so that the query above opens the connection.
    await Promise.resolve()
    const connection = await settled(sql.reserve())
    expect(await settled(connection`select 2 as two`)).toEqual([{ two: 2 }])
    connection.release()
    expect(await probe).toMatchObject({ code: '57P03' })
    expect(server.refused).toBe(1)
  },
)

test('each reservation made while PostgreSQL recovers settles, and a refused reservation keeps no connection', async () => {
  await using given = await givenPool({ max: 3 })
  const { sql, server } = given
  server.recover()
  const refused = await Promise.allSettled(
    Array.from({ length: 9 }, (_, at) => settled<unknown>(at % 3 === 0 ? sql`select 1` : sql.reserve())),
  )
  for (const outcome of refused) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: '57P03' } })
  }
  server.recovered()
  expect(await reservable(sql, 3)).toBe(3)
  expect(await settled(sql`select 3 as three`)).toEqual([{ three: 3 }])
})

test('statements of a reservation whose connection was cut are rejected, and the pool keeps its size', async () => {
  await using given = await givenPool({ max: 2 })
  const { sql, others } = given
  for (let round = 0; round < 3; round += 1) {
    const connection = await settled(sql.reserve())
    const [row] = await connection<{ pid: number }[]>`select pg_backend_pid() as pid`
    const running = [connection`select pg_sleep(60)`, connection`select 1`, connection`select 2`].map(
      (query) => settled(query).catch((error: unknown) => error),
    )
    await others`select pg_terminate_backend(${row!.pid}, 5000)`
    for (const outcome of await Promise.all(running)) expect(outcome).toSatisfy(isDatabaseUnavailable)
    // This query opens a new connection, on which the reservation's statements must not run.
    await eventually(async () => (await sql`select 1`).count === 1)
    await expect(settled(connection`select 3`)).rejects.toSatisfy(isDatabaseUnavailable)
    connection.release()
    expect(await reservable(sql, 2)).toBe(2)
  }
})

test('a connection that becomes too old while it is reserved is closed when it is released', async () => {
  await using database = await createTestDatabase()
  const sql = postgres(database.url, { max: 1, max_lifetime: 0.2 })
  for (const _ of [1, 2, 3]) {
    const connection = await settled(sql.reserve())
    await connection`select pg_sleep(0.3)`
    connection.release()
    // The second of these statements must not get the connection that is closing.
    for (const two of [1, 2]) expect(await settled(sql`select ${two}::int as two`)).toEqual([{ two }])
  }
  await sql.end()
})

test('releasing twice gives the connection back once', async () => {
  await using given = await givenPool({ max: 1 })
  const { sql } = given
  const first = await settled(sql.reserve())
  first.release()
  const second = await settled(sql.reserve())
  first.release()
  const third = sql.reserve()
  await second`select 1`
  expect(await Promise.race([third.then(() => 'granted'), second`select 2`.then(() => 'waits')])).toBe(
    'waits',
  )
  second.release()
  ;(await settled(third)).release()
})
