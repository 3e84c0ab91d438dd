import { connect } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { fullTest, isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import type { ConsumerOptions } from './consumer-options.ts'
import { append } from './outbox.ts'
import { partitionOf } from './partitions.ts'
import { startRelay } from './relay.ts'
import { recordEffects } from './testing/effects.ts'
import {
  byAccount,
  consume,
  effectsOf,
  givenServers,
  log,
  logContents,
  startWorker,
  suspended,
  upTo,
  whenChanged,
} from './testing/given.ts'

type Given = Awaited<ReturnType<typeof givenServers>>

const emptied = async ({ sql }: Pick<Given, 'sql'>) => (await sql`select from outbox limit 1`).length === 0

async function startRelaying({ sql, server }: Pick<Given, 'sql' | 'server'>) {
  await using started = new AsyncDisposableStack()
  const nats = started.adopt(await connectNats(server.url, 'test', log), (open) => open.close())
  const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: 1, log })
  started.defer(() => relay.stop())
  const running = started.move()
  return { wake: () => relay.wake(), [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** A consumer of the log. Without one, at most `heldFrom` events of an account get numbers. */
async function startConsuming(
  { sql, server }: Pick<Given, 'sql' | 'server'>,
  options: Partial<ConsumerOptions> = {},
) {
  const nats = await connectNats(server.url, 'test', log)
  const consumer = consume({ sql, nats, ...options })
  return {
    [Symbol.asyncDispose]: async () => {
      await consumer.stop()
      await nats.close()
    },
  }
}

/** An account in the partition of another account. */
const neighbourOf = (account: string) =>
  upTo(100)
    .map((number) => `acct_${number}`)
    .find((other) => partitionOf(other) === partitionOf(account))!

const heldFrom = 50

test.concurrent(
  'an event is published when its transaction commits, and never when it is rolled back',
  async () => {
    await using given = await givenServers()
    await using relay = await startRelaying(given)
    const failed = transaction(given.sql, async (tx) => {
      await append(tx, suspended('acct_a', 99))
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    await transaction(given.sql, (tx) => append(tx, suspended('acct_a', 1)))
    await transaction(given.sql, (tx) => append(tx, suspended('acct_a', 2), suspended('acct_a', 3)))
    relay.wake()
    await eventually(() => emptied(given))
    expect(byAccount(await logContents(given.sql))).toEqual({ acct_a: [1, 2, 3] })
  },
)

fullTest.concurrent(
  'two relays killed again and again number every event once, in the order of the commits',
  async () => {
    await using given = await givenServers()
    await using _ = await startConsuming(given)
    const accounts = ['acct_a', 'acct_b', 'acct_c']
    const each = 400
    const changes = Promise.all(accounts.map((account) => whenChanged(given.sql, account, 1, each)))
    const start = () => startWorker('relay', given.databaseUrl, given.server.url)
    const relays = [await start(), await start()]
    const last = async () => {
      const [row] = await given.sql<{ last: bigint | null }[]>`select max(position) as last from outbox`
      return row!.last
    }
    for (let round = 0; round < (isFull ? 6 : 3); round += 1) {
      const before = (await last()) ?? 0n
      await eventually(async () => ((await last()) ?? 1_000_000n) > before)
      await relays[round % 2]!.kill()
      relays[round % 2] = await start()
    }
    await changes
    await eventually(() => emptied(given))
    await Promise.all(relays.map((relay) => relay[Symbol.asyncDispose]()))
    const contents = byAccount(await logContents(given.sql))
    for (const account of accounts) expect(contents[account]).toEqual(upTo(each))
  },
)

fullTest.concurrent(
  'while NATS is unavailable changes continue, and all of their events arrive afterwards',
  async () => {
    await using given = await givenServers()
    await using _ = await startRelaying(given)
    await using _consumer = await startConsuming(given)
    await whenChanged(given.sql, 'acct_a', 1, 50)
    await eventually(() => emptied(given))
    await given.server.kill()
    const startedMs = performance.now()
    await whenChanged(given.sql, 'acct_a', 51, 150)
    // A single change that waited for NATS would take seconds.
    expect(performance.now() - startedMs).toBeLessThan(60_000)
    expect(await emptied(given)).toBe(false)
    await given.server.start()
    await eventually(() => emptied(given))
    expect(byAccount(await logContents(given.sql))).toEqual({ acct_a: upTo(150) })
  },
)

test.concurrent(
  'a process that starts while NATS is unavailable publishes once NATS is available',
  async () => {
    await using given = await givenServers()
    await given.server.stop()
    await using _ = await startRelaying(given)
    await whenChanged(given.sql, 'acct_a', 1, 3)
    await given.server.start()
    await eventually(() => emptied(given))
    expect(byAccount(await logContents(given.sql))).toEqual({ acct_a: [1, 2, 3] })
  },
)

test.concurrent('events are published while requests use all connections of the pool', async () => {
  await using given = await givenServers()
  const pool = connect(given.databaseUrl, { name: 'small pool', max: 1 })
  await using ending = new AsyncDisposableStack()
  ending.defer(() => pool.end({ timeout: 5 }))
  await using relay = await startRelaying({ ...given, sql: pool })
  const used = await pool.reserve()
  await whenChanged(given.sql, 'acct_a', 1, 3)
  relay.wake()
  await eventually(() => emptied(given))
  expect(byAccount(await logContents(given.sql))).toEqual({ acct_a: [1, 2, 3] })
  used.release()
})

test('an account gets no further numbers while many of its events are unconfirmed, and the accounts beside it do', async () => {
  await using given = await givenServers()
  await using relay = await startRelaying(given)
  const [loud, quiet] = ['acct_loud', neighbourOf('acct_loud')]
  // The events are written in one transaction, as when a plan is archived.
  await transaction(given.sql, (tx) => append(tx, ...upTo(1_000).map((number) => suspended(loud, number))))
  const numbered = async () => byAccount(await logContents(given.sql))
  for (const number of upTo(30)) {
    await transaction(given.sql, (tx) => append(tx, suspended(quiet, number)))
    relay.wake()
    await eventually(async () => expect((await numbered())[quiet]).toEqual(upTo(number)), { intervalMs: 5 })
  }
  expect((await numbered())[loud]).toEqual(upTo(heldFrom))
  // Each replica counts the events that it has numbered itself.
  await using other = await startRelaying(given)
  other.wake()
  await eventually(async () => expect((await numbered())[loud]).toEqual(upTo(2 * heldFrom)))
  await using _ = await startConsuming(given)
  await eventually(() => emptied(given))
  expect(await numbered()).toEqual({ [loud]: upTo(1_000), [quiet]: upTo(30) })
  await eventually(async () =>
    expect(byAccount(await effectsOf(given.sql))).toEqual({ [loud]: upTo(1_000), [quiet]: upTo(30) }),
  )
})

fullTest('unconfirmed events that the log has lost hold nothing back', async () => {
  await using given = await givenServers()
  await using relay = await startRelaying(given)
  await whenChanged(given.sql, 'acct_a', 1, 2 * heldFrom)
  const numbered = async () => byAccount(await logContents(given.sql))['acct_a']
  await eventually(async () => expect((await numbered())?.length).toBeGreaterThanOrEqual(heldFrom))
  const held = (await numbered())!.length
  expect(held).toBeLessThan(2 * heldFrom)
  // The log as it was before, as after a restore of an earlier backup.
  await given.sql.begin(async (tx) => {
    await tx`update event_log_state set numbers = array_fill(0::bigint, array[8])`
    await tx`delete from event_log`
  })
  relay.wake()
  await eventually(() => emptied(given))
  expect(await numbered()).toEqual(upTo(2 * heldFrom).slice(held))
})

fullTest('events of an account beside a flood reach a slow consumer within half a second', async () => {
  await using given = await givenServers()
  await using relay = await startRelaying(given)
  await using _ = await startConsuming(given, {
    handle: async (tx, events) => {
      // As long as the notifier takes for an account with many endpoints.
      await tx`select pg_sleep(${events.length * 0.001})`
      await recordEffects(tx, events)
    },
  })
  const [loud, quiet] = ['acct_loud', neighbourOf('acct_loud')]
  await transaction(given.sql, (tx) => append(tx, ...upTo(5_000).map((number) => suspended(loud, number))))
  relay.wake()
  await eventually(async () => (await effectsOf(given.sql)).length > 0)
  const waits: number[] = []
  for (const number of upTo(40)) {
    const startedMs = performance.now()
    await transaction(given.sql, (tx) => append(tx, suspended(quiet, number)))
    relay.wake()
    await eventually(
      async () =>
        expect(await given.sql`select from effects where account_id = ${quiet}`).toHaveLength(number),
      { intervalMs: 5 },
    )
    waits.push(performance.now() - startedMs)
  }
  expect(await emptied(given)).toBe(false)
  // The median: the tests that run beside this one delay single events, and most of them on two cores.
  expect(waits.toSorted((a, b) => a - b)[20]).toBeLessThan(500)
  // Consumers report positions every two seconds, and earlier during a flood: otherwise the rest would take 100 s.
  await eventually(async () => expect((await effectsOf(given.sql)).length).toBe(5_040), { timeoutMs: 25_000 })
  expect(byAccount(await effectsOf(given.sql))).toEqual({ [loud]: upTo(5_000), [quiet]: upTo(40) })
})

test('a large outbox is read by its indexes, with plans made when it was empty', async () => {
  await using given = await givenServers()
  const { sql } = given
  // PostgreSQL usually plans for an empty table, because the outbox is empty most of the time.
  await sql`analyze outbox`
  const counted = async (deleted: number) => {
    const [row] = await sql<{ deleted: number; read: number }[]>`
      select n_tup_del::int as deleted, (seq_tup_read + (
        select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'outbox'
      ))::int as read
      from pg_stat_user_tables where relname = 'outbox'`
    expect(row!.deleted).toBe(deleted)
    return row!.read
  }
  // It has confirmed everything.
  await sql`
    insert into event_log_readers (consumer, partition, epoch, number)
    select 'notifier', partition, 1, 1000000 from generate_series(0, 7) as partition`
  /** @returns how many rows the relay read, of 5,060 */
  const relayed = async (round: number) => {
    const before = await counted(round * 5_060)
    const relay = await startRelaying(given)
    for (const number of upTo(30)) {
      await transaction(sql, (tx) => append(tx, suspended('acct_a', number)))
      relay.wake()
      await eventually(() => emptied(given))
    }
    const many = upTo(5_000).map((number) => suspended('acct_loud', number))
    await transaction(sql, (tx) => append(tx, ...many))
    for (const number of upTo(30)) await transaction(sql, (tx) => append(tx, suspended('acct_b', number)))
    relay.wake()
    await eventually(() => emptied(given))
    await relay[Symbol.asyncDispose]()
    // PostgreSQL shows the counts of a connection a second later.
    return (await eventually(() => counted((round + 1) * 5_060))) - before
  }
  // Autovacuum may look at a table of the database. Meanwhile index entries of deleted rows stay, and are read again.
  const rounds: number[] = []
  while (rounds.length < 3 && Math.min(...rounds) >= 80_000) rounds.push(await relayed(rounds.length))
  // Index scans read some 20,000 rows, each several times. Plans for an empty table read 195,000 to 560,000.
  expect(Math.min(...rounds)).toBeLessThan(80_000)
})
