import { isDatabaseUnavailable } from '@licensing/database/problems'
import { withRequestContext } from '@licensing/process/context'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { hasReached, streamEnds } from './caught-up.ts'
import { hasStream } from './streams.ts'
import { startConsumer } from './consumer.ts'
import type { Received } from './consumer-options.ts'
import { append } from './outbox.ts'
import { partitionCount, partitionOf } from './partitions.ts'
import { startRelay } from './relay.ts'
import { recordEffects } from './testing/effects.ts'
import {
  byAccount,
  consume,
  effectsOf,
  givenConnections,
  givenServers,
  log,
  startWorker,
  suspended,
  upTo,
  whenChanged,
} from './testing/given.ts'

const accounts = Array.from({ length: 12 }, (_, at) => `acct_${at}`)

function accountsOfOnePartition(): [string, string] {
  const others = upTo(100).map((at) => `acct_other_${at}`)
  return ['acct_many', others.find((other) => partitionOf(other) === partitionOf('acct_many'))!]
}

async function givenSender() {
  const given = await givenServers()
  const connections = await givenConnections(given)
  const { sender, receiver, nats } = connections
  const relay = startRelay({ sql: given.sql, nats: sender, source: 'licensing', streamReplicas: 1, log })
  return {
    ...given,
    nats,
    receiver,
    consumer: () =>
      startConsumer({
        sql: given.sql,
        nats: receiver,
        service: 'notifier',
        source: 'licensing',
        streamReplicas: 1,
        log,
        handle: recordEffects,
        isTransient: isDatabaseUnavailable,
      }),
    [Symbol.asyncDispose]: async () => {
      await relay.stop()
      await connections[Symbol.asyncDispose]()
      await given[Symbol.asyncDispose]()
    },
  }
}

test('replicas share the partitions, and a stopped one’s go to the others at once', async () => {
  await using given = await givenSender()
  const first = given.consumer()
  await eventually(() => first.held().length === partitionCount)
  const second = given.consumer()
  await eventually(
    () => first.held().length === partitionCount / 2 && second.held().length === partitionCount / 2,
  )
  expect([...first.held(), ...second.held()].toSorted((a, b) => a - b)).toEqual([
    ...Array(partitionCount).keys(),
  ])
  await first.stop()
  await eventually(() => second.held().length === partitionCount)
  await second.stop()
})

test('consumers killed between effect and acknowledgement take every event in once, in order', async () => {
  await using given = await givenSender()
  const each = 150
  const changes = Promise.all(accounts.map((account) => whenChanged(given.sql, account, 1, each)))
  const start = () => startWorker('consumer', given.databaseUrl, given.server.urlOf('notifier'))
  const workers = [await start(), await start()]
  for (let round = 0; round < 4; round += 1) {
    const before = (await effectsOf(given.sql)).length
    await eventually(async () => {
      const { length } = await effectsOf(given.sql)
      return length > before || length === accounts.length * each
    })
    await workers[round % 2]!.kill()
    workers[round % 2] = await start()
  }
  await changes
  await eventually(async () => (await effectsOf(given.sql)).length === accounts.length * each)
  await Promise.all(workers.map((worker) => worker[Symbol.asyncDispose]()))
  const taken = byAccount(await effectsOf(given.sql))
  for (const account of accounts) expect(taken[account]).toEqual(upTo(each))
})

test('a poison message goes to the dead-letter stream and what follows it flows on', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 5)
  await given.sql.begin((tx) =>
    append(tx, {
      accountId: 'acct_a',
      applicationId: 'app_1',
      payload: { case: 'licenceRevoked', value: { licenceId: 'lic_poison', status: 'revoked' } },
    }),
  )
  await whenChanged(given.sql, 'acct_a', 6, 10)
  await whenChanged(given.sql, 'acct_b', 1, 3)
  const consumer = given.consumer()
  await eventually(async () => (await effectsOf(given.sql)).length === 13)
  expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: upTo(10), acct_b: upTo(3) })
  const jsm = await given.nats.connection.jetstreamManager()
  const letters = await jsm.streams.info('DEAD_LETTERS')
  expect(letters.state.messages).toBe(1)
  await consumer.stop()
})

test('the log of an event that cannot be consumed names the request that caused it', async () => {
  await using given = await givenSender()
  await withRequestContext({ requestId: 'req-1' }, () =>
    given.sql.begin((tx) =>
      append(tx, {
        accountId: 'acct_a',
        applicationId: 'app_1',
        payload: { case: 'licenceRevoked', value: { licenceId: 'lic_poison', status: 'revoked' } },
      }),
    ),
  )
  await using worker = await startWorker('consumer', given.databaseUrl, given.server.urlOf('notifier'))
  const line = await eventually(() => {
    const found = worker
      .output()
      .split('\n')
      .find((each) => each.includes('dead-letter stream"'))
    expect(found).toBeDefined()
    return JSON.parse(found!) as unknown
  })
  expect(line).toMatchObject({ level: 'error', request_id: 'req-1', account_id: 'acct_a' })
  expect(line).toHaveProperty('event_id', expect.stringMatching(/^evt_/))
})

test('a second copy of an event in the stream has no second effect', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 3)
  const consumer = given.consumer()
  await eventually(async () => (await effectsOf(given.sql)).length === 3)
  const jsm = await given.nats.connection.jetstreamManager()
  const first = await jsm.streams.getMessage('LICENSING_EVENTS', { seq: 1 })
  await given.nats.connection.jetstream().publish(first.subject, first.data)
  await whenChanged(given.sql, 'acct_a', 4, 4)
  await eventually(async () => (await effectsOf(given.sql)).length === 4)
  expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: [1, 2, 3, 4] })
  await consumer.stop()
})

test('a handler that is still at work when its batch turns out to be known has no effect outside the transaction', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 3)
  let calls = 0
  const consumer = consume({
    sql: given.sql,
    nats: given.receiver,
    handle: async (tx, events) => {
      calls += 1
      const call = calls
      // Long enough for the record of the ids to fail.
      for (let looks = 0; looks < 50; looks += 1) await effectsOf(given.sql)
      // Under a key of its own: a second effect is to be seen, not refused.
      const row = ({ event }: Received) => ({ ...event, id: `${event.id} in call ${call}` })
      await recordEffects(
        tx,
        events.map((each) => ({ ...each, event: row(each) })),
      )
    },
  })
  await eventually(async () => expect(await effectsOf(given.sql)).toHaveLength(3))
  const callsBefore = calls
  const jsm = await given.nats.connection.jetstreamManager()
  const first = await jsm.streams.getMessage('LICENSING_EVENTS', { seq: 1 })
  await given.nats.connection.jetstream().publish(first.subject, first.data)
  await eventually(() => calls > callsBefore)
  await whenChanged(given.sql, 'acct_a', 4, 4)
  await eventually(async () => expect(byAccount(await effectsOf(given.sql)).acct_a).toContain(4))
  await consumer.stop()
  expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: [1, 2, 3, 4] })
})

test('an account with few events in a batch does not wait for those of one with many, and none is consumed twice', async () => {
  await using given = await givenSender()
  const [many, few] = accountsOfOnePartition()
  const handled: number[] = []
  const gate = Promise.withResolvers<void>()
  const consumer = consume({
    sql: given.sql,
    nats: given.receiver,
    handle: async (tx, events) => {
      handled.push(events.length)
      if (handled.length === 1) await gate.promise
      await recordEffects(tx, events)
      // Those of the other are committed by then.
      if (handled.length === 3) await tx`select 1 / 0`
    },
    isTransient: () => true,
  })
  await whenChanged(given.sql, many, 1, 1)
  await eventually(() => handled.length === 1)
  await given.sql.begin((tx) =>
    append(
      tx,
      ...upTo(300).map((number) => suspended(many, number + 1)),
      ...upTo(3).map((number) => suspended(few, number)),
    ),
  )
  const jsm = await given.nats.connection.jetstreamManager()
  await eventually(async () => {
    const consumers = await jsm.consumers.list('LICENSING_EVENTS').next()
    expect(Math.max(...consumers.map(({ delivered }) => delivered.consumer_seq))).toBe(304)
  })
  // All that was sent before its answer has arrived with it.
  await given.receiver.connection.flush()
  await new Promise(setImmediate)
  gate.resolve()
  await eventually(async () => expect(await effectsOf(given.sql)).toHaveLength(304))
  await consumer.stop()
  // The 3 are in the batch that is read again, and roll it back: their ids are known.
  expect(handled).toEqual([1, 3, 300, 3, 300])
  expect(byAccount((await effectsOf(given.sql)).slice(0, 4))).toEqual({ [many]: [1], [few]: upTo(3) })
  expect(byAccount(await effectsOf(given.sql))).toEqual({ [few]: upTo(3), [many]: upTo(301) })
})

test('a consumer is behind while more waits for it than it is consuming', async () => {
  await using given = await givenSender()
  const [account] = accountsOfOnePartition()
  await given.sql.begin((tx) => append(tx, ...upTo(1_200).map((number) => suspended(account, number))))
  const jsm = await given.nats.connection.jetstreamManager()
  await eventually(async () => expect([...(await streamEnds(jsm, 'licensing')).values()]).toContain(1_200n))
  const go = Promise.withResolvers<void>()
  const consumer = consume({
    sql: given.sql,
    nats: given.receiver,
    handle: async (tx, events) => {
      await go.promise
      await recordEffects(tx, events)
    },
  })
  await eventually(() => consumer.isBehind())
  go.resolve()
  await eventually(async () => expect(await effectsOf(given.sql)).toHaveLength(1_200))
  await eventually(() => !consumer.isBehind())
  await consumer.stop()
})

test('what a consumer returns is called after the commit of its own batch, and not when that was rolled back', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 3)
  const seen: number[] = []
  let failures = 1
  const consumer = startConsumer({
    sql: given.sql,
    nats: given.receiver,
    service: 'notifier',
    source: 'licensing',
    streamReplicas: 1,
    log,
    handle: async (tx, events) => {
      await recordEffects(tx, events)
      // Seen from outside only when it is committed.
      const committed = () => void effectsOf(given.sql).then((rows) => seen.push(rows.length))
      failures -= 1
      if (failures < 0) return committed
      await tx`select 1 / 0`
    },
    isTransient: () => true,
  })
  await eventually(() => expect(Math.max(0, ...seen)).toBe(3))
  expect(seen.every((rows) => rows > 0)).toBe(true)
  expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: [1, 2, 3] })
  await consumer.stop()
})

test('a stream that was lost and recreated is read from its start', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 3)
  const before = given.consumer()
  await eventually(async () => (await effectsOf(given.sql)).length === 3)
  await before.stop()
  const jsm = await given.nats.connection.jetstreamManager()
  await jsm.streams.delete('LICENSING_EVENTS')
  await whenChanged(given.sql, 'acct_a', 4, 5)
  const after = given.consumer()
  await eventually(async () => (await effectsOf(given.sql)).length === 5)
  expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: upTo(5) })
  await after.stop()
})

test('a stream is asked for no message before it has one, since NATS 2.9 crashes while the stream is being created', async () => {
  await using given = await givenSender()
  const { connection } = given.nats
  const jsm = await connection.jetstreamManager()
  await eventually(() => hasStream(jsm, 'licensing'))
  const asked: string[] = []
  connection.subscribe('$JS.EVENT.ADVISORY.API', {
    callback: (_error, message) => void asked.push(message.json<{ subject: string }>().subject),
  })
  expect(new Set((await streamEnds(jsm, 'licensing')).values())).toEqual(new Set([0n]))
  await jsm.streams.getMessage('LICENSING_EVENTS', { seq: 1 }).catch(() => undefined)
  const readsOfMessages = () => asked.filter((subject) => subject.startsWith('$JS.API.STREAM.MSG.GET.'))
  // The one of this test.
  await eventually(() => readsOfMessages().length > 0)
  expect(readsOfMessages()).toHaveLength(1)
})

test('a consumer has caught up when it has consumed what was there at the start', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 20)
  const jsm = await given.nats.connection.jetstreamManager()
  await eventually(async () => [...(await streamEnds(jsm, 'licensing')).values()].includes(20n))
  const ends = await streamEnds(jsm, 'licensing')
  expect(await hasReached(given.sql, 'licensing', ends)).toBe(false)
  const consumer = given.consumer()
  await eventually(() => hasReached(given.sql, 'licensing', ends))
  expect(await effectsOf(given.sql)).toHaveLength(20)
  await consumer.stop()
})
