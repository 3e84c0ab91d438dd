import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { MissedEventsService } from '@licensing/proto/missed-events'
import { eventually } from '@licensing/test-support/poll'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import type { Consumer } from './consumer.ts'
import { missedEventsService } from './missed-events-service.ts'
import { append } from './outbox.ts'
import { startRelay } from './relay.ts'
import {
  byAccount,
  consume,
  effectsOf,
  givenConnections,
  givenServers,
  log,
  upTo,
  whenChanged,
} from './testing/given.ts'

const account = 'acct_a'
const fromTheStart = { afterStream: '', afterSequence: 0n }

/** A sender, a way to start consumers that compare often, and what an operator calls. */
async function givenConsumers() {
  await using started = new AsyncDisposableStack()
  const given = started.use(await givenServers())
  const { sender, receiver, nats } = started.use(await givenConnections(given))
  started.adopt(
    startRelay({ sql: given.sql, nats: sender, source: 'licensing', streamReplicas: 1, log }),
    (relay) => relay.stop(),
  )
  const startComparing = (isTransient = true) =>
    consume({ sql: given.sql, nats: receiver, auditEveryMs: 50, isTransient: () => isTransient })
  const operator = async (consumer: Consumer) => {
    const server = await serve({
      address: { host: '127.0.0.1', port: 0 },
      services: [missedEventsService([consumer])],
      log,
      health: new Health(),
    })
    const channel = connectTo(MissedEventsService, `127.0.0.1:${server.port}`)
    return {
      calls: channel.calls,
      [Symbol.asyncDispose]: async () => {
        channel.close()
        await server.stop()
      },
    }
  }
  const running = started.move()
  const numbers = async () => byAccount(await effectsOf(given.sql))[account] ?? []
  return {
    ...given,
    nats,
    consume: startComparing,
    operator,
    numbers,
    manager: () => nats.connection.jetstreamManager(),
    published: (count: number) =>
      eventually(async () => {
        const { state } = await (await nats.connection.jetstreamManager()).streams.info('LICENSING_EVENTS')
        expect(state.messages).toBe(count)
      }),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Events 1 to 10 of which 6 to 8 were passed by the position, as an earlier release could do. */
async function givenLoss(given: Awaited<ReturnType<typeof givenConsumers>>) {
  await whenChanged(given.sql, account, 1, 5)
  const before = given.consume()
  await eventually(async () => expect(await given.numbers()).toEqual(upTo(5)))
  await before.stop()
  await whenChanged(given.sql, account, 6, 10)
  await given.published(10)
  await given.sql`update consumer_positions set position = 8 where position = 5`
  const consumer = given.consume()
  await eventually(async () => expect(await given.numbers()).toEqual([1, 2, 3, 4, 5, 9, 10]))
  return consumer
}

async function gauge(): Promise<number | undefined> {
  const metrics = await register.getSingleMetricAsString('events_missed')
  const value = /events_missed\{stream="LICENSING_EVENTS"\} (\d+)/.exec(metrics)?.[1]
  return value === undefined ? undefined : Number(value)
}

test('what the position passed without an effect is found, counted, and consumed once by the operator’s call', async () => {
  await using given = await givenConsumers()
  const consumer = await givenLoss(given)
  await eventually(async () => expect(await gauge()).toBe(3))
  await using operator = await given.operator(consumer)
  const { events, total } = await operator.calls.listMissedEvents({})
  expect(total).toBe(3n)
  expect(events.map(({ stream, sequence }) => [stream, sequence])).toEqual([
    ['LICENSING_EVENTS', 6n],
    ['LICENSING_EVENTS', 7n],
    ['LICENSING_EVENTS', 8n],
  ])
  // Two operators at once.
  const answers = await Promise.all([
    operator.calls.consumeMissedEvents(fromTheStart),
    operator.calls.consumeMissedEvents(fromTheStart),
  ])
  expect(answers.flatMap(({ outcomes }) => outcomes.map(({ failure }) => failure))).not.toContainEqual(
    expect.any(String),
  )
  expect(await given.numbers()).toEqual([1, 2, 3, 4, 5, 9, 10, 6, 7, 8])
  expect((await operator.calls.listMissedEvents({})).total).toBe(0n)
  await eventually(async () => expect(await gauge()).toBe(0))
  await consumer.stop()
})

test('a missed event whose handling fails stays on the list with the reason, and the others are consumed', async () => {
  await using given = await givenConsumers()
  await whenChanged(given.sql, account, 1, 1)
  await given.sql.begin((tx) =>
    append(tx, {
      accountId: account,
      applicationId: 'app_1',
      payload: { case: 'licenceRevoked', value: { licenceId: 'poison', status: 'revoked' } },
    }),
  )
  await whenChanged(given.sql, account, 2, 3)
  await given.published(4)
  const first = given.consume(false)
  await eventually(async () => expect(await given.numbers()).toEqual(upTo(3)))
  await first.stop()
  // As if all had been passed.
  await given.sql`truncate consumed_events, effects, dead_lettered_events`
  await given.sql`update consumer_positions set position = 4, audited = 0 where position > 0`
  const consumer = given.consume(false)
  await eventually(async () => expect((await consumer.missed(10)).count).toBe(4))
  await using operator = await given.operator(consumer)
  const { outcomes } = await operator.calls.consumeMissedEvents(fromTheStart)
  expect(outcomes.map(({ failure }) => failure !== undefined)).toEqual([false, true, false, false])
  expect(await given.numbers()).toEqual(upTo(3))
  const left = await operator.calls.listMissedEvents({})
  expect(left.events.map(({ sequence }) => sequence)).toEqual([2n])
  const rest = await operator.calls.consumeMissedEvents({
    afterStream: left.events[0]!.stream,
    afterSequence: left.events[0]!.sequence,
  })
  expect(rest.outcomes).toEqual([])
  await consumer.stop()
})

test('second copies, copies published by hand and dead letters are not missed', async () => {
  await using given = await givenConsumers()
  await whenChanged(given.sql, account, 1, 3)
  const consumer = given.consume(false)
  await eventually(async () => expect(await given.numbers()).toEqual(upTo(3)))
  const first = await (await given.manager()).streams.getMessage('LICENSING_EVENTS', { seq: 1 })
  const js = given.nats.connection.jetstream()
  await js.publish(first.subject, first.data)
  await js.publish(first.subject, Buffer.from('no event at all'))
  await given.sql.begin((tx) =>
    append(tx, {
      accountId: account,
      applicationId: 'app_1',
      payload: { case: 'licenceRevoked', value: { licenceId: 'poison', status: 'revoked' } },
    }),
  )
  await whenChanged(given.sql, account, 4, 4)
  await eventually(async () => expect(await given.numbers()).toEqual(upTo(4)))
  await eventually(async () => {
    const [row] = await given.sql<
      { audited: bigint }[]
    >`select max(audited) as audited from consumer_positions`
    expect(row!.audited).toBe(7n)
  })
  expect(await consumer.missed(10)).toEqual({ events: [], count: 0 })
  await consumer.stop()
})

test('a stream that was recreated is compared from its start, and what its former one missed is forgotten', async () => {
  await using given = await givenConsumers()
  const before = await givenLoss(given)
  await eventually(async () => expect((await before.missed(10)).count).toBe(3))
  await before.stop()
  await (await given.manager()).streams.delete('LICENSING_EVENTS')
  await whenChanged(given.sql, account, 11, 12)
  const after = given.consume()
  await eventually(async () => expect(await given.numbers()).toEqual([1, 2, 3, 4, 5, 9, 10, 11, 12]))
  await eventually(async () => {
    const [row] = await given.sql<
      { audited: bigint }[]
    >`select max(audited) as audited from consumer_positions`
    expect(row!.audited).toBe(2n)
  })
  expect((await after.missed(10)).count).toBe(0)
  await after.stop()
})
