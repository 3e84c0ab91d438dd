import { fullTest } from '@licensing/test-support/drawn'
import { encoded } from './log-queries.ts'
import type { LoggedBatch } from './outbox-queries.ts'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createLogger } from '@licensing/process/log'
import { EventBatchSchema, ReadLogRequestSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import { logSubjectOf, subjectOf } from '@licensing/proto/event-streams'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { connect } from 'nats'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { listPastSlots, truncateSlot } from './log-queries.ts'
import { partitionOf } from './partitions.ts'
import { startRelay } from './relay.ts'
import { recordEffects } from './testing/effects.ts'
import { byAccount, effectsOf, givenDatabase, log, upTo } from './testing/given.ts'
import { noNats } from './testing/no-nats.ts'
import { givenPipeline } from './testing/pipeline.ts'
import type { Pipeline } from './testing/pipeline.ts'

const partition = partitionOf('acct_a')

async function givenBoth() {
  await using started = new AsyncDisposableStack()
  const nats = started.use(await startOwnNats())
  const pipeline = started.use(
    await givenPipeline({ sender: nats.urlOf('licensing'), receiver: nats.urlOf('notifier'), replicas: 1 }),
  )
  await pipeline.producer.start()
  await pipeline.consumer.start()
  const running = started.move()
  return { ...pipeline, nats, pipeline, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

async function expectNumbers(pipeline: Pipeline, numbers: number[]): Promise<void> {
  await eventually(async () => expect((await pipeline.consumed())['acct_a']).toHaveLength(numbers.length))
  expect(await pipeline.consumed()).toEqual({ acct_a: numbers })
  expect(await pipeline.consumer.sql`select error from dead_letters`).toEqual([])
}

async function positionOf({ consumer }: Pipeline): Promise<bigint> {
  const [row] = await consumer.sql<{ number: bigint }[]>`
    select number from consumer_positions where partition = ${partition}`
  return row!.number
}

test.concurrent(
  'a producer continues after it is restored to an earlier backup, and each event that it then commits is consumed',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer } = given
    await given.change('acct_a', 1, 10)
    await producer.backUp()
    await given.change('acct_a', 11, 30)
    await expectNumbers(pipeline, upTo(30))
    await producer.restore()
    await producer.start()
    // Events 11 to 30 are lost. Their numbers in the log are assigned again, but not all of them.
    await given.change('acct_a', 101, 115)
    await expectNumbers(pipeline, [...upTo(30), ...upTo(115).slice(100)])
    // More events follow, up to numbers above the earlier position.
    await given.change('acct_a', 116, 140)
    await expectNumbers(pipeline, [...upTo(30), ...upTo(140).slice(100)])
  },
)

fullTest.concurrent(
  'a restored producer continues, also if the consumer was stopped with unread events and JetStream is wiped',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer, nats } = given
    await given.change('acct_a', 1, 10)
    await expectNumbers(pipeline, upTo(10))
    await consumer.stop()
    await given.change('acct_a', 11, 20)
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    await producer.backUp()
    await given.change('acct_a', 21, 30)
    await producer.restore()
    await byHand(nats.url, ({ streams }) => streams.delete('LICENSING_EVENTS'))
    await producer.start()
    await given.change('acct_a', 101, 130)
    await consumer.start()
    await expectNumbers(pipeline, [...upTo(20), ...upTo(130).slice(100)])
  },
)

fullTest.concurrent(
  'a consumer that restarts before its restored producer ignores messages whose numbers are assigned again',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await given.change('acct_a', 1, 10)
    await producer.backUp()
    await given.change('acct_a', 11, 30)
    await expectNumbers(pipeline, upTo(30))
    const position = await positionOf(pipeline)
    await producer.restore()
    await producer.start()
    await eventually(async () => expect(await positionOf(pipeline)).toBeLessThan(position))
    await producer.stop()
    await consumer.stop()
    // JetStream still has the messages of events 11 to 30.
    const startedAt = Date.now()
    await consumer.start()
    await readFromStream(given.nats.url, startedAt)
    await producer.start()
    await given.change('acct_a', 101, 105)
    await expectNumbers(pipeline, [...upTo(30), ...upTo(105).slice(100)])
  },
)

test.concurrent(
  'a log that was restored from a backup without a restart of PostgreSQL is noticed by its consumers',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await given.change('acct_a', 1, 20)
    await expectNumbers(pipeline, upTo(20))
    await producer.stop()
    const position = await positionOf(pipeline)
    await producer.sql`update event_log_state set numbers[${partition + 1}::int] = ${position - 5n}`
    await producer.sql`delete from event_log where partition = ${partition} and number > ${position - 5n}`
    await producer.start()
    await eventually(async () => {
      const [row] = await producer.sql<
        { count: number }[]
      >`select count(*)::int as count from event_log_epochs`
      expect(row!.count).toBe(2)
    })
    await given.change('acct_a', 21, 30)
    await expectNumbers(pipeline, upTo(30))
    await consumer.stop()
  },
)

fullTest.concurrent('messages of JetStream that a restored log no longer has are ignored', async () => {
  await using given = await givenBoth()
  const { pipeline, producer, consumer } = given
  await given.change('acct_a', 1, 10)
  await expectNumbers(pipeline, upTo(10))
  await producer.backUp()
  await consumer.backUp()
  await given.change('acct_a', 11, 20)
  await expectNumbers(pipeline, upTo(20))
  await producer.restore()
  await consumer.restore()
  await producer.start()
  await eventually(async () => expect(await producer.sql`select from event_log_epochs`).toHaveLength(2))
  await consumer.start()
  await given.change('acct_a', 101, 105)
  await expectNumbers(pipeline, [...upTo(10), 101, 102, 103, 104, 105])
})

fullTest.concurrent(
  'a consumer whose database is restored from a backup while it runs idle catches up from the log',
  async () => {
    await using given = await givenBoth()
    const { pipeline, consumer, nats } = given
    await given.change('acct_a', 1, 10)
    await expectNumbers(pipeline, upTo(10))
    const early = await positionOf(pipeline)
    await given.change('acct_a', 11, 30)
    await expectNumbers(pipeline, upTo(30))
    await byHand(nats.url, ({ streams }) => streams.purge('LICENSING_EVENTS'))
    // The state of a standby that takes over without the newest transactions.
    await consumer.sql.begin(async (tx) => {
      await tx`delete from effects where number > 10`
      await tx`update consumer_positions set number = ${early}, done = 0 where partition = ${partition}`
    })
    await expectNumbers(pipeline, upTo(30))
  },
)

fullTest.concurrent('a consumer that is restored to an earlier backup catches up from the log', async () => {
  await using given = await givenBoth()
  const { pipeline, consumer, nats } = given
  await given.change('acct_a', 1, 10)
  await expectNumbers(pipeline, upTo(10))
  await consumer.backUp()
  await given.change('acct_a', 11, 30)
  await expectNumbers(pipeline, upTo(30))
  await consumer.restore()
  expect(byAccount(await effectsOf(consumer.sql))).toEqual({ acct_a: upTo(10) })
  await byHand(nats.url, ({ streams }) => streams.purge('LICENSING_EVENTS'))
  await consumer.start()
  await given.change('acct_a', 31, 40)
  await expectNumbers(pipeline, upTo(40))
})

test.concurrent(
  'after a restore of backups that were taken one after the other, consumers first, each event of the producer has one effect',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await given.change('acct_a', 1, 10)
    await expectNumbers(pipeline, upTo(10))
    await consumer.backUp()
    await given.change('acct_a', 11, 20)
    await expectNumbers(pipeline, upTo(20))
    await producer.backUp()
    await given.change('acct_a', 21, 30)
    await expectNumbers(pipeline, upTo(30))
    await Promise.all([producer.restore(), consumer.restore()])
    await byHand(given.nats.url, ({ streams }) => streams.delete('LICENSING_EVENTS'))
    await Promise.all([producer.start(), consumer.start()])
    await given.change('acct_a', 101, 105)
    await expectNumbers(pipeline, [...upTo(20), 101, 102, 103, 104, 105])
  },
)

test.concurrent(
  'messages that are repeated, out of order, of a lost epoch or garbage have no effect',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, nats } = given
    await given.change('acct_a', 1, 5)
    await expectNumbers(pipeline, upTo(5))
    const rows = await producer.sql<LoggedBatch[]>`
      select * from event_log where partition = ${partition} order by number`
    const batches = rows.map((row) => fromBinary(EventBatchSchema, encoded(row)))
    const last = batches.at(-1)!
    const forged = [
      ...batches.toReversed(),
      { ...last, epoch: last.epoch + 7n, number: last.number + 1n },
      { ...last, epoch: 0n, number: last.number + 1n },
      // A number that the log has not reached.
      { ...last, number: last.number + 100n },
      { ...last, partition: (partition + 1) % 8, number: last.number + 1n },
    ].map((batch) => toBinary(EventBatchSchema, create(EventBatchSchema, batch)))
    await byHand(nats.url, async (_, connection) => {
      for (const bytes of [...forged, Buffer.from('garbage')]) {
        await connection.jetstream().publish(subjectOf('licensing', partition), bytes)
      }
    })
    await given.change('acct_a', 6, 10)
    await expectNumbers(pipeline, upTo(10))
  },
)

fullTest.concurrent('batches that overtake each other in the stream are consumed in order', async () => {
  await using given = await givenBoth()
  const { pipeline, producer, consumer, nats } = given
  await given.change('acct_a', 1, 5)
  await expectNumbers(pipeline, upTo(5))
  await consumer.stop()
  await given.change('acct_a', 6, 15)
  await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
  const rows = await producer.sql<LoggedBatch[]>`
    select * from event_log where partition = ${partition} order by number desc limit 4`
  await byHand(nats.url, async ({ streams }, connection) => {
    await streams.purge('LICENSING_EVENTS')
    for (const row of rows)
      await connection.jetstream().publish(subjectOf('licensing', partition), encoded(row))
  })
  await consumer.start()
  await expectNumbers(pipeline, upTo(15))
})

test.concurrent(
  'a consumer that starts for the first time without its producer consumes the events in JetStream',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await consumer.stop()
    await consumer.sql`truncate consumer_positions`
    await given.change('acct_a', 1, 5)
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    await producer.stop()
    await consumer.start()
    await expectNumbers(pipeline, upTo(5))
    await producer.start()
    await given.change('acct_a', 6, 10)
    await expectNumbers(pipeline, upTo(10))
  },
)

test.concurrent('if JetStream is unavailable but NATS is not, events arrive from the log', async () => {
  await using given = await givenBoth()
  const { pipeline, nats } = given
  await given.change('acct_a', 1, 5)
  await expectNumbers(pipeline, upTo(5))
  // The services' NATS users may not replace a stream of this name that has other settings.
  await byHand(nats.url, async ({ streams }) => {
    await streams.delete('LICENSING_EVENTS')
    await streams.add({ name: 'LICENSING_EVENTS', subjects: ['elsewhere'] })
  })
  await given.change('acct_a', 6, 15)
  await expectNumbers(pipeline, upTo(15))
})

fullTest.concurrent(
  'a day of the log is removed when it is a day old and all consumers have confirmed it; a consumer whose events were removed continues',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    const { sql } = producer
    await given.change('acct_a', 1, 5)
    await expectNumbers(pipeline, upTo(5))
    const past = () => listPastSlots(sql, ['notifier'])
    expect(await past()).toEqual([])
    await sql`update event_log set slot = (slot + 5) % 16, created_at = now() - interval '2 days'`
    await eventually(async () => expect(await past()).toMatchObject([{ is_confirmed: true }]))
    await consumer.stop()
    await given.change('acct_a', 6, 10)
    await eventually(async () => expect(await sql`select from outbox limit 1`).toHaveLength(0))
    await sql`
      update event_log set slot = (slot + 4) % 16, created_at = now() - interval '3 days'
      where created_at > now() - interval '1 day'`
    const slots = await past()
    expect(slots).toHaveLength(2)
    expect(slots.filter(({ is_confirmed: isConfirmed }) => isConfirmed)).toHaveLength(1)
    for (const { slot } of slots) await truncateSlot(sql, slot)
    expect(await sql`select from event_log`).toHaveLength(0)

    // The consumer reports the lost events and continues.
    await byHand(given.nats.url, ({ streams }) => streams.purge('LICENSING_EVENTS'))
    await consumer.start()
    await given.change('acct_a', 11, 15)
    await expectNumbers(pipeline, [...upTo(5), ...upTo(15).slice(10)])
  },
)

fullTest.concurrent(
  'a producer that is restored while a part of a batch is consumed does not repeat the part, wherever its events are now',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    // All in one batch: `{number: 0, done: 4}`.
    await producer.stop()
    await given.change('acct_a', 1, 6)
    await producer.backUp()
    await consumer.stop()
    await producer.start()
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    await producer.stop()
    const events = (await producer.sql<LoggedBatch[]>`select * from event_log`).flatMap(
      ({ events: bytes }) => fromBinary(EventBatchSchema, bytes).events,
    )
    const received = events.slice(0, 4).map(({ event }) => ({
      event: fromBinary(EventSchema, event),
      payload: event,
      traceParent: undefined,
    }))
    await consumer.sql.begin((tx) => recordEffects(tx, received))
    await consumer.sql`
      update consumer_positions set done = 4, epoch = ${await epochOf(pipeline)}
      where partition = ${partition}`
    await producer.restore()
    await producer.start()
    await consumer.start()
    await given.change('acct_a', 7, 9)
    await expectNumbers(pipeline, upTo(9))
  },
)

fullTest.concurrent(
  'a part of a batch that has changed since is not applied twice, and the rest is applied',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer, nats } = given
    await given.change('acct_a', 1, 3)
    await expectNumbers(pipeline, upTo(3))
    await consumer.stop()
    // As if event 3 had been the first of a larger batch.
    const position = await positionOf(pipeline)
    await consumer.sql`
    update consumer_positions set number = ${position - 1n}, done = 1 where partition = ${partition}`
    await byHand(nats.url, ({ streams }) => streams.purge('LICENSING_EVENTS'))
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    await consumer.start()
    await given.change('acct_a', 4, 6)
    await expectNumbers(pipeline, upTo(6))
  },
)

fullTest.concurrent(
  'a dead letter counts as applied: after a restore of the producer it is neither applied nor kept twice',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await given.change('acct_a', 1, 2)
    await expectNumbers(pipeline, upTo(2))
    await producer.stop()
    await given.change('acct_a', 3, 3)
    await producer.backUp()
    // Event 3 cannot be consumed before the restore. After it, it could be.
    await consumer.sql`alter table effects add constraint refused check (number <> 3)`
    await producer.start()
    const letters = () => consumer.sql`select event_id from dead_letters`
    await eventually(async () => expect(await letters()).toHaveLength(1))
    await producer.restore()
    await consumer.sql`alter table effects drop constraint refused`
    await producer.start()
    await given.change('acct_a', 4, 5)
    await eventually(async () => expect((await pipeline.consumed())['acct_a']).toHaveLength(4))
    expect(await pipeline.consumed()).toEqual({ acct_a: [1, 2, 4, 5] })
    expect(await letters()).toHaveLength(1)
  },
)

test.concurrent(
  'if the clock of the lost server was ahead, its consumers get all events of the restored one',
  async () => {
    await using given = await givenBoth()
    const { pipeline, producer, consumer } = given
    await given.change('acct_a', 1, 5)
    await expectNumbers(pipeline, upTo(5))
    await consumer.stop()
    await consumer.sql`update consumer_positions set epoch = ${Date.now() + 86_400_000}::bigint, number = 40`
    await given.change('acct_a', 6, 10)
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    await consumer.start()
    await given.change('acct_a', 11, 15)
    await expectNumbers(pipeline, upTo(15))
  },
)

test.concurrent('an answer of the log does not grow with the number of its epochs', async () => {
  await using given = await givenBoth()
  const { producer, nats } = given
  const request = create(ReadLogRequestSchema, { positions: [{ partition, epoch: 1n }], partition })
  const client = await connectNats(nats.urlOf('notifier'), 'notifier', log)
  const sizeOf = async () => {
    const bytes = toBinary(ReadLogRequestSchema, request)
    const { data } = await client.connection.request(logSubjectOf('licensing', 'notifier'), bytes, {
      timeout: 2_000,
    })
    return data.length
  }
  await eventually(async () => expect(await sizeOf()).toBeGreaterThan(0))
  for (let restarts = 0; restarts < 50; restarts += 1) {
    await producer.sql`update event_log_epochs set incarnation = 'of another server'`
    await producer.sql`select current_epoch()`
  }
  expect(await producer.sql`select from event_log_epochs`).toHaveLength(51)
  expect(await sizeOf()).toBeLessThan(100)
  await client.close()
})

test.concurrent(
  'unconfirmed days stay for more than a week, and go, the oldest first, when the log is too large',
  async () => {
    await using database = await givenDatabase()
    const { sql } = database
    await sql`
      insert into event_log (slot, partition, number, epoch, precedes_epoch, events, created_at)
      select (extract(epoch from now())::bigint / 86400 - day) % 16, 0, 20 - day, 1, false, sha256('x'), now() - day * interval '1 day'
      from unnest(array[9, 5, 3]) as day`
    // Random bytes, which PostgreSQL cannot compress.
    await sql`update event_log set events = ${randomBytes(400_000)}`
    const left = async () => {
      const rows = await sql<{ number: bigint }[]>`select number from event_log order by number`
      return rows.map(({ number }) => Number(number))
    }
    const warnings: string[] = []
    const trimmed = async (logBytes: number) => {
      const logger = createLogger('test', 'silent')
      logger.warn = (_: unknown, message?: string) => void warnings.push(message ?? '')
      const relay = startRelay({
        sql,
        nats: noNats(),
        source: 'licensing',
        streamReplicas: 1,
        logBytes,
        log: logger,
      })
      return relay
    }
    const large = await trimmed(2_000_000)
    await eventually(() => expect(warnings.join()).toContain('EVENT_LOG_MAX_BYTES'))
    await large.stop()
    expect(await left()).toEqual([11, 15, 17])
    const small = await trimmed(1_200_000)
    await eventually(async () => expect(await left()).toEqual([15, 17]))
    await small.stop()
  },
)

async function epochOf({ producer }: Pipeline): Promise<bigint> {
  const [row] = await producer.sql<{ epoch: bigint }[]>`select max(ordinal) as epoch from event_log_epochs`
  return row!.epoch
}

/** Waits until a consumer of JetStream that was created after a time has got all messages of the partition. */
async function readFromStream(url: string, after: number): Promise<void> {
  await eventually(() =>
    byHand(url, async ({ consumers }) => {
      const list = await consumers.list('LICENSING_EVENTS').next()
      const reading = list.find(
        ({ name, created }) => name.startsWith(`notifier-${partition}-`) && Date.parse(created) > after,
      )
      expect(reading).toMatchObject({ num_pending: 0 })
      expect(reading!.delivered.consumer_seq).toBeGreaterThan(1)
    }),
  )
}

async function byHand(
  url: string,
  work: (
    manager: Awaited<ReturnType<Awaited<ReturnType<typeof connect>>['jetstreamManager']>>,
    connection: Awaited<ReturnType<typeof connect>>,
  ) => Promise<unknown>,
): Promise<void> {
  const connection = await connect({ servers: url })
  try {
    await work(await connection.jetstreamManager(), connection)
  } finally {
    await connection.close()
  }
}
