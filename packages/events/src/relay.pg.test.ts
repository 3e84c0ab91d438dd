import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { append, createOutbox } from './outbox.ts'
import { startRelay } from './relay.ts'
import {
  byAccount,
  givenServers,
  log,
  startWorker,
  streamContents,
  suspended,
  upTo,
  whenChanged,
} from './testing/given.ts'

const emptied = async (sql: Awaited<ReturnType<typeof givenServers>>['sql']) => {
  const rows = await sql`select from outbox limit 1`
  return rows.length === 0
}

test('an event goes out when its transaction commits and never when it rolls back', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  const failed = outbox.transaction(async (tx) => {
    await append(tx, suspended('acct_a', 99))
    throw new Error('rolled back')
  })
  await expect(failed).rejects.toThrow('rolled back')
  await outbox.transaction((tx) => append(tx, suspended('acct_a', 1)))
  await outbox.transaction((tx) => append(tx, suspended('acct_a', 2), suspended('acct_a', 3)))
  await eventually(() => emptied(given.sql))
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_a: [1, 2, 3] })
  await relay.stop()
  await nats.close()
})

test('two relays killed again and again between publish and delete lose nothing, double nothing and keep the order', async () => {
  await using given = await givenServers()
  const accounts = ['acct_a', 'acct_b', 'acct_c']
  const each = 400
  const changes = Promise.all(accounts.map((account) => whenChanged(given.sql, account, 1, each)))
  const start = () => startWorker('relay', given.databaseUrl, given.server.url)
  const relays = [await start(), await start()]
  for (let round = 0; round < 6; round += 1) {
    const [before] = await given.sql<
      { position: bigint }[]
    >`select coalesce(max(position), 0) as position from outbox`
    await eventually(async () => {
      const [now] = await given.sql<
        { position: bigint }[]
      >`select coalesce(max(position), 1000000) as position from outbox`
      return now!.position > before!.position
    })
    await relays[round % 2]!.kill()
    relays[round % 2] = await start()
  }
  await changes
  await eventually(() => emptied(given.sql))
  await Promise.all(relays.map((relay) => relay[Symbol.asyncDispose]()))
  const contents = byAccount(await streamContents(given.server.url))
  for (const account of accounts) expect(contents[account]).toEqual(upTo(each))
})

test('while NATS is unavailable changes go on, and all of them arrive once it is back', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  await whenChanged(given.sql, 'acct_a', 1, 50)
  await eventually(() => emptied(given.sql))
  await given.server.kill()
  const startedMs = performance.now()
  await whenChanged(given.sql, 'acct_a', 51, 150)
  // One that waited for NATS would take seconds itself.
  expect(performance.now() - startedMs).toBeLessThan(60_000)
  expect(await emptied(given.sql)).toBe(false)
  await given.server.start()
  await eventually(() => emptied(given.sql))
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_a: upTo(150) })
  await relay.stop()
  await nats.close()
})

test('a process starts while NATS is unavailable, and publishes when it comes', async () => {
  await using given = await givenServers()
  await given.server.stop()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  await whenChanged(given.sql, 'acct_a', 1, 3)
  await given.server.start()
  await eventually(() => emptied(given.sql))
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_a: [1, 2, 3] })
  await relay.stop()
  await nats.close()
})

test('a stream that is full makes events wait, and once it may hold more all of them arrive, in order', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const start = (streamBytes: number) =>
    startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, streamBytes, log })
  const streamBytes = 32 * 1024
  const small = start(streamBytes)
  await whenChanged(given.sql, 'acct_a', 1, 300)
  const jsm = await nats.connection.jetstreamManager()
  const stored = async () => (await jsm.streams.info('LICENSING_EVENTS')).state
  await eventually(async () => expect((await stored()).bytes).toBeGreaterThan(streamBytes - 1_000))
  const { messages, bytes } = await stored()
  expect(bytes).toBeLessThanOrEqual(streamBytes)
  expect(messages).toBeLessThan(300)
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_a: upTo(messages) })
  const [waiting] = await given.sql<{ count: number }[]>`select count(*)::int as count from outbox`
  expect(waiting!.count).toBeGreaterThanOrEqual(300 - messages)
  await small.stop()

  // As after a restart with another STREAM_MAX_BYTES.
  const large = start(1024 * 1024)
  await eventually(() => emptied(given.sql))
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_a: upTo(300) })
  await large.stop()
  await nats.close()
})

test('an account with very many events delays no other, and each has its own in order', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  const many = upTo(5_000).map((number) => suspended('acct_loud', number))
  // At once, as the archive of a plan writes them, and between others by name.
  await outbox.transaction((tx) => append(tx, ...many))
  for (const account of ['acct_a', 'acct_z']) {
    for (const number of upTo(3)) await outbox.transaction((tx) => append(tx, suspended(account, number)))
  }
  await eventually(() => emptied(given.sql))
  const contents = await streamContents(given.server.url)
  expect(byAccount(contents)).toEqual({ acct_loud: upTo(5_000), acct_a: upTo(3), acct_z: upTo(3) })
  const isQuiet = ({ accountId }: { accountId: string }) => accountId !== 'acct_loud'
  const before = contents.slice(0, contents.findLastIndex(isQuiet)).filter((event) => !isQuiet(event))
  expect(before.length).toBeLessThan(2_500)
  await relay.stop()
  await nats.close()
})

test('an account with very many events goes at full speed alone, and more slowly while others send', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  const timeOf = async (from: number, to: number, meanwhile: () => Promise<void>) => {
    const many = upTo(to)
      .slice(from)
      .map((number) => suspended('acct_loud', number))
    await outbox.transaction((tx) => append(tx, ...many))
    const startedMs = performance.now()
    for (;;) {
      const left = await given.sql`select from outbox where account_id = 'acct_loud' limit 1`
      if (left.length === 0) return performance.now() - startedMs
      await meanwhile()
    }
  }
  let quiet = 0
  const aloneMs = await timeOf(0, 1_500, () => pause(20))
  const besideMs = await timeOf(1_500, 3_000, async () => {
    await pause(20)
    await outbox.transaction((tx) => append(tx, suspended('acct_a', (quiet += 1))))
  })
  // A batch of each rests; alone there are 200 events in one, beside others 20.
  expect(besideMs).toBeGreaterThan(2 * aloneMs)
  await eventually(() => emptied(given.sql))
  const contents = byAccount(await streamContents(given.server.url))
  expect(contents).toEqual({ acct_loud: upTo(3_000), acct_a: upTo(quiet) })
  await relay.stop()
  await nats.close()
})

test('an account that rests does not have the outbox looked at each time it commits', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  // Some five seconds at full speed: 200 events every 50 ms.
  await outbox.transaction((tx) =>
    append(tx, ...upTo(20_000).map((number) => suspended('acct_loud', number))),
  )
  let committed = 20_000
  const startedMs = performance.now()
  const seconds = () => (performance.now() - startedMs) / 1_000
  while (seconds() < 2) await outbox.transaction((tx) => append(tx, suspended('acct_loud', (committed += 1))))
  await relay.stop()
  const took = seconds()
  const scans = async () => {
    const [row] = await given.sql<{ scans: number }[]>`
      select idx_scan::int as scans from pg_stat_user_indexes where indexrelname = 'outbox_of_account'`
    return row!.scans
  }
  // What a connection has counted is seen a second later.
  const counted = await eventually(async () => {
    const before = await scans()
    await pause(1_200)
    expect(await scans()).toBe(before)
    return before
  })
  // A look begins with the first account, tries the next one, and reads the first events; once a second it measures more.
  expect(counted).toBeLessThan(took * 20 * 6 + 50)
  await nats.close()
})

test('an account that commits more than can be published gets less beside others, until it commits less', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  let [quiet, loud] = [0, 0]
  const publishedIn = async (seconds: number, perSecond: number) => {
    const leftOf = async () => {
      const [row] = await given.sql<{ left: number }[]>`
        select count(*)::int as left from outbox where account_id = 'acct_loud'`
      return row!.left
    }
    const before = loud - (await leftOf())
    let committed = 0
    const startedMs = performance.now()
    for (let passed = 0; passed < seconds; passed = (performance.now() - startedMs) / 1_000) {
      await outbox.transaction((tx) => append(tx, suspended('acct_a', (quiet += 1))))
      const due = Math.min(Math.floor(passed * perSecond) - committed, 500)
      const more = Array.from({ length: Math.max(0, due) }, () => suspended('acct_loud', (loud += 1)))
      await outbox.transaction((tx) => append(tx, ...more))
      committed += more.length
      await pause(10)
    }
    return (loud - (await leftOf()) - before) / seconds
  }
  // Until it is measured.
  await publishedIn(3, 8_000)
  const flooding = await publishedIn(4, 8_000)
  const later = await publishedIn(4, 0)
  expect(loud).toBeGreaterThan(20_000)
  expect(flooding).toBeLessThan(140)
  expect(later).toBeGreaterThan(1.5 * flooding)
  await relay.stop()
  await nats.close()
})

test('an outbox that has grown is read as a small one is: by its indexes', async () => {
  await using given = await givenServers()
  const nats = await connectNats(given.server.url, 'test', log)
  // As PostgreSQL finds it most of the time: its plans are made for an empty table.
  await given.sql`analyze outbox`
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  const outbox = createOutbox(given.sql, (accounts) => relay.wake(accounts))
  for (const number of upTo(30)) {
    await outbox.transaction((tx) => append(tx, suspended('acct_a', number)))
    await eventually(() => emptied(given.sql))
  }
  const many = upTo(5_000).map((number) => suspended('acct_loud', number))
  await outbox.transaction((tx) => append(tx, ...many))
  for (const number of upTo(30)) await outbox.transaction((tx) => append(tx, suspended('acct_b', number)))
  await eventually(() => emptied(given.sql))
  await relay.stop()
  // What a connection has counted is seen a second later.
  const read = await eventually(async () => {
    const [row] = await given.sql<{ deleted: number; read: number }[]>`
      select n_tup_del::int as deleted, (seq_tup_read + (
        select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'outbox'
      ))::int as read
      from pg_stat_user_tables where relname = 'outbox'`
    expect(row!.deleted).toBe(5_060)
    return row!.read
  })
  // By index some 45,000: each row a few times, and those that are counted to see how fast it grows. By plans for an empty
  // table 195,000 to 560,000.
  expect(read).toBeLessThan(80_000)
  await nats.close()
})

test('events that a replica of an earlier release appends keep their order among those of this one', async () => {
  await using given = await givenServers()
  for (let number = 1; number <= 60; number += 1) {
    await given.sql.begin((tx) => append(tx, suspended(`acct_${number % 2}`, Math.ceil(number / 2))))
    // It does not know of the column.
    if (number % 3 === 0)
      await given.sql`
        update outbox set account_id = default where position = (select max(position) from outbox)`
  }
  const nats = await connectNats(given.server.url, 'test', log)
  const relay = startRelay({ sql: given.sql, nats, source: 'licensing', streamReplicas: 1, log })
  await eventually(() => emptied(given.sql))
  expect(byAccount(await streamContents(given.server.url))).toEqual({ acct_0: upTo(30), acct_1: upTo(30) })
  await relay.stop()
  await nats.close()
})
