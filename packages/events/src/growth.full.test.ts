import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { partitionOf } from './partitions.ts'
import { findEffects } from './testing/effects.ts'
import { consume, log, upTo } from './testing/given.ts'
import { givenPipeline } from './testing/pipeline.ts'
import type { Pipeline } from './testing/pipeline.ts'

const names = upTo(200).map((number) => `acct_${number}`)
const movesTo = (count: number) => (account: string) =>
  partitionOf(account, count) !== partitionOf(account, count / 2)
/** An account that moves to an added partition whenever a log gets twice as many. */
const mover = names.find((account) => movesTo(16)(account) && movesTo(32)(account))!
const stayer = names.find((account) => partitionOf(account, 32) === partitionOf(mover, 8))!
const others = names.slice(0, 10).filter((account) => account !== mover && account !== stayer)

async function givenGrowing() {
  await using started = new AsyncDisposableStack()
  const nats = started.use(await startOwnNats())
  const pipeline = started.use(
    await givenPipeline({ sender: nats.urlOf('licensing'), receiver: nats.urlOf('notifier'), replicas: 1 }),
  )
  await pipeline.producer.start()
  await pipeline.consumer.start()
  const running = started.move()
  return { ...pipeline, pipeline, nats, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

async function expectAll(pipeline: Pipeline, expected: Record<string, number[]>): Promise<void> {
  const count = Object.values(expected).flat().length
  await eventually(async () => {
    expect(Object.values(await pipeline.consumed()).flat()).toHaveLength(count)
  })
  expect(await pipeline.consumed()).toEqual(expected)
  expect(await pipeline.consumer.sql`select error from dead_letters`).toEqual([])
}

const emptied = ({ producer }: Pipeline) =>
  eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))

async function positionsOf({ consumer }: Pipeline): Promise<number> {
  const [row] = await consumer.sql<{ count: number }[]>`
    select count(*)::int as count from consumer_positions where number > 0 or partition > 7`
  return row!.count
}

test.concurrent(
  'a log gets more partitions under load, twice: each event is consumed once, in order, and replicas share the partitions',
  async () => {
    await using given = await givenGrowing()
    const { pipeline, nats } = given
    const second = await connectNats(nats.urlOf('notifier'), 'notifier', log)
    const replica = consume({ sql: given.consumer.sql, nats: second, findKnown: findEffects })
    const accounts = [mover, stayer, ...others]
    const each = 250
    const load = Promise.all(accounts.map((account) => given.change(account, 1, each)))
    const halfway = (share: number) =>
      eventually(async () =>
        expect(Object.values(await given.consumed()).flat().length).toBeGreaterThan(
          accounts.length * each * share,
        ),
      )
    await halfway(0.1)
    await given.grow(16)
    await halfway(0.3)
    await given.grow(32)
    await load
    await expectAll(pipeline, Object.fromEntries(accounts.map((account) => [account, upTo(each)])))
    await eventually(() => expect(replica.held()).toHaveLength(16))
    await given.change(mover, each + 1, each + 10)
    await expectAll(pipeline, {
      ...Object.fromEntries(accounts.map((account) => [account, upTo(each)])),
      [mover]: upTo(each + 10),
    })
    const [log32] = await given.producer.sql<{ numbers: bigint[] }[]>`select numbers from event_log_state`
    expect(log32!.numbers).toHaveLength(32)
    expect(log32!.numbers[partitionOf(mover, 32)]).toBeGreaterThan(0n)
    await replica.stop()
    await second.close()
  },
)

test.concurrent(
  'events of an added partition wait until earlier events of their accounts are consumed, even if these take long',
  async () => {
    await using given = await givenGrowing()
    const { pipeline, consumer } = given
    await consumer.sql.unsafe(`
      create function wait() returns trigger language plpgsql as
        $$ begin if new.number <= 40 then perform pg_sleep(0.1); end if; return new; end $$;
      create trigger wait before insert on effects for each row execute function wait()`)
    await given.change(mover, 1, 40)
    await emptied(pipeline)
    await given.grow(16)
    await given.change(mover, 41, 60)
    await expectAll(pipeline, { [mover]: upTo(60) })
  },
)

test.concurrent(
  'a consumer that is restored to a backup from before two growths consumes the events since then in order, each once',
  async () => {
    await using given = await givenGrowing()
    const { pipeline, consumer } = given
    await given.change(mover, 1, 10)
    await expectAll(pipeline, { [mover]: upTo(10) })
    await consumer.backUp()
    await given.change(mover, 11, 40)
    await emptied(pipeline)
    await given.grow(16)
    await given.change(mover, 41, 70)
    await emptied(pipeline)
    await given.grow(32)
    await given.change(mover, 71, 100)
    await expectAll(pipeline, { [mover]: upTo(100) })
    await consumer.restore()
    // Earlier partitions are slower than the added ones.
    await consumer.sql.unsafe(`
      create function wait() returns trigger language plpgsql as
        $$ begin perform pg_sleep((100 - new.number) * 0.001); return new; end $$;
      create trigger wait before insert on effects for each row execute function wait()`)
    await consumer.start()
    await expectAll(pipeline, { [mover]: upTo(100) })
  },
)

test.concurrent.each([
  ['gets its partitions again', 16],
  ['has fewer partitions then', 8],
])(
  'a log that is restored to a backup from before it grew, and %s: events since then are consumed, each once',
  async (_, count) => {
    await using given = await givenGrowing()
    const { pipeline, producer } = given
    await given.change(mover, 1, 10)
    await expectAll(pipeline, { [mover]: upTo(10) })
    await producer.stop()
    // These wait in the outbox at the time of the backup: they get a number in the lost partition, and another one later.
    await given.change(mover, 11, 30)
    await producer.backUp()
    await given.grow(16)
    await given.change(mover, 31, 40)
    await expectAll(pipeline, { [mover]: upTo(40) })
    expect(await positionsOf(pipeline)).toBeGreaterThan(8)
    await producer.restore()
    await given.grow(count)
    await given.change(mover, 101, 120)
    await expectAll(pipeline, { [mover]: [...upTo(40), ...upTo(120).slice(100)] })
    await given.grow(16)
    await given.change(mover, 121, 140)
    await expectAll(pipeline, { [mover]: [...upTo(40), ...upTo(140).slice(100)] })
    expect(await positionsOf(pipeline)).toBeGreaterThan(8)
  },
)
