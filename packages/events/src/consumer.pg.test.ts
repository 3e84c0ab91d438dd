import { withRequestContext } from '@licensing/process/context'
import { fullTest, isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import type { NatsUser } from '@licensing/proto/nats-rights'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import type { ConsumerOptions } from './consumer-options.ts'
import { append } from './outbox.ts'
import { firstPartitions } from './partitions.ts'
import { startRelay } from './relay.ts'
import { recordEffects } from './testing/effects.ts'
import {
  byAccount,
  consume,
  effectsOf,
  givenServers,
  log,
  startWorker,
  suspended,
  upTo,
  whenChanged,
} from './testing/given.ts'

const accounts = Array.from({ length: 12 }, (_, at) => `acct_${at}`)

const poison = (accountId: string) => ({
  accountId,
  applicationId: 'app_1',
  payload: { case: 'licenceRevoked' as const, value: { licenceId: 'lic_poison', status: 'revoked' } },
})

/** Servers, a relay, and a function that starts a consumer, which records its effects unless a test says otherwise. */
async function givenSender() {
  await using started = new AsyncDisposableStack()
  const given = started.use(await givenServers())
  const open = async (user: NatsUser) =>
    started.adopt(await connectNats(given.server.urlOf(user), user, log), (nats) => nats.close())
  const [sender, receiver] = [await open('licensing'), await open('notifier')]
  const relay = startRelay({ sql: given.sql, nats: sender, source: 'licensing', streamReplicas: 1, log })
  started.defer(() => relay.stop())
  const running = started.move()
  return {
    ...given,
    relay,
    consumer: (options: Partial<ConsumerOptions> = {}) =>
      consume({ sql: given.sql, nats: receiver, ...options }),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test.concurrent('replicas share the partitions, and a stopped one’s go to the others at once', async () => {
  await using given = await givenSender()
  const first = given.consumer()
  await eventually(() => first.held().length === firstPartitions)
  const second = given.consumer()
  await eventually(
    () => first.held().length === firstPartitions / 2 && second.held().length === firstPartitions / 2,
  )
  expect([...first.held(), ...second.held()].toSorted((a, b) => a - b)).toEqual([
    ...Array(firstPartitions).keys(),
  ])
  await first.stop()
  await eventually(() => second.held().length === firstPartitions)
  await second.stop()
})

fullTest.concurrent(
  'consumers that are killed at any moment process every event once, in order',
  async () => {
    await using given = await givenSender()
    const each = 150
    const changes = Promise.all(accounts.map((account) => whenChanged(given.sql, account, 1, each)))
    const start = () => startWorker('consumer', given.databaseUrl, given.server.urlOf('notifier'))
    const workers = [await start(), await start()]
    for (let round = 0; round < (isFull ? 4 : 2); round += 1) {
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
  },
)

fullTest.concurrent(
  'an event that cannot be consumed goes to the dead letters, and the events after it are consumed',
  async () => {
    await using given = await givenSender()
    await whenChanged(given.sql, 'acct_a', 1, 5)
    await given.sql.begin((tx) =>
      append(tx, suspended('acct_a', 6), poison('acct_a'), suspended('acct_a', 7)),
    )
    await whenChanged(given.sql, 'acct_a', 8, 10)
    await whenChanged(given.sql, 'acct_b', 1, 3)
    const consumer = given.consumer()
    await eventually(async () => (await effectsOf(given.sql)).length === 13)
    expect(byAccount(await effectsOf(given.sql))).toEqual({ acct_a: upTo(10), acct_b: upTo(3) })
    const letters = await given.sql`select source, account_id, error from dead_letters`
    expect([...letters]).toEqual([{ source: 'licensing', account_id: 'acct_a', error: 'poison' }])
    await consumer.stop()
  },
)

test.concurrent('the log of an event that cannot be consumed names the request that caused it', async () => {
  await using given = await givenSender()
  await withRequestContext({ requestId: 'req-1' }, () =>
    given.sql.begin((tx) => append(tx, poison('acct_a'))),
  )
  await using worker = await startWorker('consumer', given.databaseUrl, given.server.urlOf('notifier'))
  const line = await eventually(() => {
    const found = worker
      .output()
      .split('\n')
      .find((each) => each.includes('moved to the dead letters'))
    expect(found).toBeDefined()
    return JSON.parse(found!) as unknown
  })
  expect(line).toMatchObject({ level: 'error', request_id: 'req-1', account_id: 'acct_a' })
  expect(line).toHaveProperty('event_id', expect.stringMatching(/^evt_/))
})

fullTest.concurrent(
  'the function that a handler returns is called after the commit of its batch, and not after a rollback',
  async () => {
    await using given = await givenSender()
    await whenChanged(given.sql, 'acct_a', 1, 3)
    const seen: number[] = []
    let failures = 1
    const consumer = given.consumer({
      handle: async (tx, events) => {
        await recordEffects(tx, events)
        // Another connection sees the effects only after the commit.
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
  },
)

test.concurrent('a consumer has caught up when it has consumed the log as it was at its start', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 20)
  await eventually(async () => expect(await given.sql`select from outbox limit 1`).toHaveLength(0))
  const go = Promise.withResolvers<void>()
  const consumer = given.consumer({
    handle: async (tx, events) => {
      await go.promise
      await recordEffects(tx, events)
    },
  })
  await eventually(() => consumer.held().length === firstPartitions)
  expect(await consumer.hasCaughtUp()).toBe(false)
  go.resolve()
  await eventually(() => consumer.hasCaughtUp())
  expect(await effectsOf(given.sql)).toHaveLength(20)
  await consumer.stop()
})

fullTest('a consumer stops at any moment of its readers’ work', async () => {
  await using given = await givenSender()
  await whenChanged(given.sql, 'acct_a', 1, 10)
  for (const round of upTo(20)) {
    const consumer = given.consumer()
    await eventually(() => consumer.held().length === firstPartitions, { intervalMs: 1 })
    for (let statements = 0; statements < round; statements += 1) await given.sql`select`
    await consumer.stop()
  }
  const consumer = given.consumer()
  await eventually(async () => expect(await effectsOf(given.sql)).toHaveLength(10))
  await consumer.stop()
})

test('a consumer that waits for events leaves no timers', async () => {
  await using given = await givenSender()
  const consumer = given.consumer()
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const sent = 50
  let before = 0
  for (const number of upTo(sent)) {
    await whenChanged(given.sql, 'acct_1', number, number)
    given.relay.wake()
    await eventually(async () => expect(await effectsOf(given.sql)).toHaveLength(number), { intervalMs: 5 })
    if (number === 1) before = timers()
  }
  expect(timers() - before).toBeLessThan(sent / 2)
  await consumer.stop()
})
