import { startOwnNats } from '@licensing/test-support/nats'
import type { OwnNats } from '@licensing/test-support/nats'
import { copyNatsStore, natsDamage } from '@licensing/test-support/nats-damage'
import { eventually } from '@licensing/test-support/poll'
import { connect } from 'nats'
import { describe, expect, test } from 'vitest'
import { givenPipeline } from './testing/pipeline.ts'
import type { Pipeline } from './testing/pipeline.ts'
import { upTo } from './testing/given.ts'

// The promise: whatever NATS loses, each event has one effect, in the order of its account.
const accounts = ['acct_a', 'acct_b', 'acct_c']
const each = 15

async function byOperator(nats: OwnNats, verb: 'delete' | 'purge') {
  const connection = await connect({ servers: nats.url })
  const { streams } = await connection.jetstreamManager()
  await streams[verb]('LICENSING_EVENTS')
  await connection.close()
}

/** What happens to the store of NATS. `copy` is an earlier state of it. */
const faults: Record<string, (nats: OwnNats, copy: string) => Promise<void>> = {
  'is wiped': (nats) => natsDamage.wipe(nats),
  'is set back': (nats, copy) => natsDamage.setBack(nats, copy),
  'is truncated': (nats) => natsDamage.truncate(nats),
  'has a flipped bit in each block': (nats) => natsDamage.flipBit(nats),
  'has its stream deleted by hand': (nats) => byOperator(nats, 'delete'),
  'has its stream purged by hand': (nats) => byOperator(nats, 'purge'),
}

/** What the services do meanwhile. */
const states: Record<
  string,
  (pipeline: Pipeline, change: () => Promise<void>) => Promise<() => Promise<void>>
> = {
  'while nothing happens': () => Promise.resolve(() => Promise.resolve()),
  'under load': (_pipeline, change) => {
    const changing = change()
    return Promise.resolve(() => changing)
  },
  'while the consumer is stopped': async ({ producer, consumer }, change) => {
    await consumer.stop()
    await change()
    await eventually(async () => expect(await producer.sql`select from outbox limit 1`).toHaveLength(0))
    return () => consumer.start()
  },
  'while the relay is stopped': async ({ producer }, change) => {
    await producer.stop()
    await change()
    return () => producer.start()
  },
}

const cases = Object.keys(faults).flatMap((fault) =>
  Object.keys(states).map((state) => [fault, state] as const),
)

describe('no event is lost, repeated or out of order if the store of NATS', () => {
  test.concurrent.each(cases)('%s %s', async (fault, state) => {
    await using nats = await startOwnNats()
    await using pipeline = await givenPipeline({
      sender: nats.urlOf('licensing'),
      receiver: nats.urlOf('notifier'),
      replicas: 1,
    })
    let committed = 0
    const change = async () => {
      const from = committed + 1
      committed += each
      await Promise.all(accounts.map((account) => pipeline.change(account, from, from + each - 1)))
    }
    await pipeline.producer.start()
    await pipeline.consumer.start()
    await change()
    await expectAll(pipeline, committed)
    const copy = await copyNatsStore(nats)
    // Consumed, and not in the copy.
    await change()
    await expectAll(pipeline, committed)

    const goOn = await states[state]!(pipeline, change)
    await faults[fault]!(nats, copy)
    await nats.start()
    await goOn()
    await change()
    await expectAll(pipeline, committed)
  })
})

async function expectAll(pipeline: Pipeline, committed: number): Promise<void> {
  const expected = Object.fromEntries(accounts.map((account) => [account, upTo(committed)]))
  await eventually(async () => {
    const consumed = await pipeline.consumed()
    const counts = accounts.map((account) => consumed[account]?.length ?? 0)
    expect(counts).toEqual(accounts.map(() => committed))
  })
  expect(await pipeline.consumed()).toEqual(expected)
  expect(await pipeline.consumer.sql`select error from dead_letters`).toEqual([])
}
