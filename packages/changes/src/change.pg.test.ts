import { connect } from '@licensing/database/connect'
import type { Sql } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { outboxMigrations } from '@licensing/events/migrations'
import { append } from '@licensing/events/outbox'
import { createTestDatabase } from '@licensing/test-support/database'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { createChange, LostRace, longLockTimeout } from './change.ts'

/** A table with one row, which `hold` locks until it is released. */
async function givenRow({ connections = 10 } = {}) {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const open = (max: number) => {
    const sql = connect(database.url, { name: 'test', max })
    starting.defer(() => sql.end({ timeout: 5 }))
    return sql
  }
  const [sql, other] = [open(connections), open(2)]
  await migrate(other, [outboxMigrations])
  await other`create table things (id int primary key, number int not null)`
  await other`insert into things values (1, 0), (2, 0)`
  const running = starting.move()
  return {
    sql,
    raise: (id: number) => async (tx: Sql) =>
      void (await tx`update things set number = number + 1 where id = ${id}`),
    numberOf: async (id: number) => (await other`select number from things where id = ${id}`)[0]!['number'],
    hold: async () => {
      const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const ended = other.begin(async (tx) => {
        await tx`select from things where id = 1 for update`
        held.resolve()
        await release.promise
      })
      await held.promise
      return async () => {
        release.resolve()
        await ended
      }
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('many changes that wait for a lock leave connections for others, and run when it is free', async () => {
  await using given = await givenRow({ connections: 3 })
  const change = createChange(given.sql)
  const release = await given.hold()
  const waiting = Promise.all(Array.from({ length: 30 }, () => change(given.raise(1))))
  const startedAt = performance.now()
  for (let times = 0; times < 20; times += 1) await change(given.raise(2))
  expect(performance.now() - startedAt).toBeLessThan(3_000)
  expect(await given.numberOf(1)).toBe(0)
  await release()
  await waiting
  expect(await given.numberOf(1)).toBe(30)
})

test('a change gives up if a lock is held for longer than it may wait', async () => {
  await using given = await givenRow()
  const release = await given.hold()
  const change = createChange(given.sql)
  await expect(change(given.raise(1), { maxWaitMs: 200 })).rejects.toMatchObject({ code: '55P03' })
  await release()
  expect(await given.numberOf(1)).toBe(0)
})

test('a change with a long lock timeout waits for the lock and runs once', async () => {
  await using given = await givenRow()
  const release = await given.hold()
  let runs = 0
  const work = createChange(given.sql)(async (tx) => {
    runs += 1
    await given.raise(1)(tx)
  }, longLockTimeout)
  await eventually(async () => expect(await lockWaits(given.sql)).toBe(1))
  // Longer than a usual change waits.
  await given.sql`select pg_sleep(0.2)`
  await release()
  await work
  expect(runs).toBe(1)
})

test('a change that lost a race is rolled back and runs again', async () => {
  await using given = await givenRow()
  let runs = 0
  const outcome = await createChange(given.sql)(async (tx) => {
    await given.raise(1)(tx)
    runs += 1
    if (runs < 3) throw new LostRace()
    return 'made'
  })
  expect([outcome, runs, await given.numberOf(1)]).toEqual(['made', 3, 1])
})

test('only a commit that appended events wakes the relay', async () => {
  await using given = await givenRow()
  let woken = 0
  const change = createChange(given.sql, () => (woken += 1))
  const event = {
    accountId: 'acct_a',
    applicationId: '',
    payload: { case: 'webhookTest', value: {} },
  } as const
  await change(given.raise(1))
  const failed = change(async (tx) => {
    await append(tx, event)
    throw new Error('refused')
  })
  await expect(failed).rejects.toThrow('refused')
  expect(woken).toBe(0)
  await change((tx) => append(tx, event))
  expect(woken).toBe(1)
  expect(await given.sql`select from outbox`).toHaveLength(1)
})
