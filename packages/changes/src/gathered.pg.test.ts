import { connect } from '@licensing/database/connect'
import type { Transaction } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { ServiceError } from '@licensing/grpc/errors'
import { createLogger } from '@licensing/process/log'
import { ApiKeySchema } from '@licensing/proto/catalog'
import { quotaMigrations } from '@licensing/quotas/migrations'
import { createTestDatabase } from '@licensing/test-support/database'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { createChange } from './change.ts'
import { createGatheredChange } from './gathered.ts'
import { idempotencyMigrations } from './migrations.ts'
import { createRepeatable } from './repeatable.ts'
import { call } from './testing/given-repeatable.ts'
import type { CallOptions } from './testing/given-repeatable.ts'

interface Thing {
  name: string
}

/** Replicas that share a table of things. Each call makes one: `refused` is refused, `poison` makes the statement fail. */
async function givenThings({ replicas = 1 } = {}) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const open = (max: number) => {
    const pool = connect(database.url, { name: 'gathered', max })
    starting.defer(() => pool.end({ timeout: 5 }))
    return pool
  }
  const sql = open(5)
  await migrate(sql, [quotaMigrations, idempotencyMigrations])
  await sql`create table things (id int generated always as identity primary key, name text check (name <> 'poison'))`
  const steps = { during: (_tx: Transaction): Promise<unknown> => Promise.resolve() }
  const handlers = Array.from({ length: replicas }, () => {
    const pool = open(2)
    const make = createGatheredChange<Thing, typeof ApiKeySchema, { id: number }>(createChange(pool), {
      work: async (tx, things) => {
        const names = things.map(({ name }) => name).filter((name) => name !== 'refused')
        const rows = await tx<{ id: number; name: string }[]>`
          insert into things (name) select unnest(${names}::text[]) returning id, name`
        await steps.during(tx)
        return things.map(({ name }) => {
          const row = rows.find((each) => each.name === name)
          if (row) return { kind: 'done', made: row }
          return { kind: 'refused', error: new ServiceError('conflict', 'refused') }
        })
      },
      answer: { schema: ApiKeySchema, toMessage: ({ id }) => ({ id: String(id) }) },
      queueOf: () => '',
    })
    const repeatable = createRepeatable({ sql: pool, log: createLogger('test', 'silent') })
    return (name: string) =>
      repeatable(ApiKeySchema, async () => ({ id: String((await make({ name })).id) }), { isOneChange: true })
  })
  const running = starting.move()
  return {
    sql,
    steps,
    /** @param key by default the name; without a key if it is null */
    async make(
      name: string,
      { key = name, at = 0, ...more }: { key?: string | null; at?: number } & Omit<CallOptions, 'key'> = {},
    ) {
      const { answer, replayed } = await call(handlers[at]!(name), { ...(key !== null && { key }), ...more })
      return { id: answer.id, replayed }
    },
    things: async () =>
      sql<{ name: string; xact: string }[]>`select name, xmin::text as xact from things order by id`,
    records: async () =>
      sql<{ key: string; xact: string }[]>`select key, xmin::text as xact from idempotency_keys order by key`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

const names = (count: number) => Array.from({ length: count }, (_, at) => `thing ${at}`)

test('calls with and without keys share transactions, and each answer is recorded in the transaction of its change', async () => {
  await using given = await givenThings()
  await Promise.all(names(60).map((name, at) => given.make(name, { key: at % 2 === 0 ? name : null })))
  const things = await given.things()
  expect(things).toHaveLength(60)
  const transactions = new Map(things.map(({ name, xact }) => [name, xact]))
  expect(new Set(transactions.values()).size).toBeLessThan(5)
  const records = await given.records()
  expect(records).toHaveLength(30)
  for (const { key, xact } of records) expect(xact).toBe(transactions.get(key))
  const [usage] = await given.sql<{ bytes: number }[]>`select sum(bytes)::int as bytes from idempotency_usage`
  expect(usage!.bytes).toBeGreaterThan(30 * 512)
})

test('a key that was used is answered from its record, with another body refused, and its neighbours are done', async () => {
  await using given = await givenThings()
  const first = await given.make('a')
  const [replay, mismatch, ...others] = await Promise.allSettled([
    given.make('a'),
    given.make('b', { key: 'a', body: 'another' }),
    ...names(5).map((name) => given.make(name)),
  ])
  expect(replay).toMatchObject({ value: { id: first.id, replayed: true } })
  expect(mismatch).toMatchObject({ reason: { code: 'idempotency_mismatch' } })
  expect(others.map(({ status }) => status)).toEqual(Array(5).fill('fulfilled'))
  expect(await given.things()).toHaveLength(6)
})

test('calls with one key that arrive together are one change, and the others are its repetitions', async () => {
  await using given = await givenThings({ replicas: 2 })
  const calls = Array.from({ length: 20 }, (_, at) => given.make('a', { at: at % 2 }))
  const answers = await Promise.all([...calls, ...names(10).map((name) => given.make(name))])
  const [same, others] = [answers.slice(0, 20), answers.slice(20)]
  expect(new Set(same.map(({ id }) => id)).size).toBe(1)
  expect(same.filter(({ replayed }) => !replayed)).toHaveLength(1)
  expect(others.some(({ replayed }) => replayed)).toBe(false)
  expect(await given.things()).toHaveLength(11)
})

test('a refused call records nothing, and its neighbours are recorded', async () => {
  await using given = await givenThings()
  const outcomes = await Promise.allSettled(['refused', ...names(5)].map((name) => given.make(name)))
  expect(outcomes[0]).toMatchObject({ reason: { code: 'conflict' } })
  expect((await given.records()).map(({ key }) => key)).toEqual(names(5))
  expect(await given.make('a', { key: 'refused' })).toMatchObject({ replayed: false })
})

test('if a call makes its statement fail, its neighbours are done and recorded', async () => {
  await using given = await givenThings()
  const outcomes = await Promise.allSettled(['poison', ...names(5)].map((name) => given.make(name)))
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', ...Array<string>(5).fill('fulfilled')])
  expect((await given.records()).map(({ key }) => key)).toEqual(names(5))
})

test('a key that another transaction has claimed delays only its call, which then gets the answer of that transaction', async () => {
  await using given = await givenThings({ replicas: 2 })
  const [entered, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  given.steps.during = () => {
    entered.resolve()
    return release.promise
  }
  const first = given.make('a', { at: 1 })
  await entered.promise
  given.steps.during = () => Promise.resolve()
  let isAnswered = false
  const waiting = given.make('a').finally(() => (isAnswered = true))
  // More than the replica has connections.
  for (const round of names(5)) await Promise.all(names(5).map((name) => given.make(round + name)))
  await eventually(async () => expect(await lockWaits(given.sql)).toBe(1), { intervalMs: 2 })
  expect(isAnswered).toBe(false)
  release.resolve()
  const { id } = await first
  expect(await waiting).toEqual({ id, replayed: true })
  expect(await given.things()).toHaveLength(26)
})

test('if the connection is cut before the commit, no call of the batch has changed or recorded anything', async () => {
  await using given = await givenThings()
  given.steps.during = async (tx) => {
    const [backend] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
    await given.sql`select pg_terminate_backend(${backend!.pid})`
    await tx`select 1`
  }
  const outcomes = await Promise.allSettled(names(5).map((name) => given.make(name)))
  expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill('rejected'))
  expect([await given.things(), await given.records()]).toEqual([[], []])
  given.steps.during = () => Promise.resolve()
  const again = await Promise.all(names(5).map((name) => given.make(name)))
  expect(again.map(({ replayed }) => replayed)).toEqual(Array(5).fill(false))
})

test('if the quota of recorded answers is used up, only calls with a new key are refused', async () => {
  await using given = await givenThings()
  await given.make('a')
  await given.sql`update idempotency_usage set bytes = 10000000000000`
  const outcomes = await Promise.allSettled([
    given.make('a'),
    given.make('b'),
    given.make('c', { key: null }),
  ])
  expect(outcomes).toMatchObject([
    { value: { replayed: true } },
    { reason: { code: 'quota_exceeded' } },
    { value: { replayed: false } },
  ])
  expect((await given.things()).map(({ name }) => name)).toEqual(['a', 'c'])
})
