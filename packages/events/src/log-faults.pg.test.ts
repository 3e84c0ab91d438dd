import { drawing, drawn } from '@licensing/test-support/drawn'
import { startOwnNats } from '@licensing/test-support/nats'
import type { OwnNats } from '@licensing/test-support/nats'
import { startNatsCluster } from '@licensing/test-support/nats-cluster'
import type { NatsNode } from '@licensing/test-support/nats-cluster'
import { copyNatsStore, natsDamage } from '@licensing/test-support/nats-damage'
import { eventually } from '@licensing/test-support/poll'
import { natsPasswordOf } from '@licensing/test-support/nats-users'
import type { NatsUser } from '@licensing/proto/nats-rights'
import { connect } from 'nats'
import { describe, expect, test } from 'vitest'
import { givenPipeline } from './testing/pipeline.ts'
import type { Pipeline } from './testing/pipeline.ts'
import { upTo } from './testing/given.ts'

// Whatever NATS loses, each event must have one effect, in the order of its account.
const accounts = ['acct_a', 'acct_b', 'acct_c']
const each = 15

async function byOperator(nats: OwnNats, verb: 'delete' | 'purge') {
  const connection = await connect({ servers: nats.url })
  const { streams } = await connection.jetstreamManager()
  await streams[verb]('LICENSING_EVENTS')
  await connection.close()
}

/** Faults of NATS's store. `copy` is an earlier state of it. */
const faults: Record<string, (nats: OwnNats, copy: string) => Promise<void>> = {
  'is wiped': (nats) => natsDamage.wipe(nats),
  'is set back': (nats, copy) => natsDamage.setBack(nats, copy),
  'is truncated': (nats) => natsDamage.truncate(nats),
  'has a flipped bit in each block': (nats) => natsDamage.flipBit(nats),
  'has its stream deleted by hand': (nats) => byOperator(nats, 'delete'),
  'has its stream purged by hand': (nats) => byOperator(nats, 'purge'),
}

/** States of the services during the fault. */
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
  test.concurrent.each(drawn(cases, 4))(`%s %s (${drawing})`, async (fault, state) => {
    await using nats = await startOwnNats()
    await using pipeline = await givenPipeline({
      sender: nats.urlOf('licensing'),
      receiver: nats.urlOf('notifier'),
      replicas: 1,
    })
    const change = givenChanges(pipeline)
    await pipeline.producer.start()
    await pipeline.consumer.start()
    await change.next()
    await expectAll(pipeline, change.committed())
    const copy = await copyNatsStore(nats)
    // This event is consumed, but is not in the copy.
    await change.next()
    await expectAll(pipeline, change.committed())

    const goOn = await states[state]!(pipeline, () => change.next())
    await faults[fault]!(nats, copy)
    await nats.start()
    await goOn()
    await change.next()
    await expectAll(pipeline, change.committed())
  })
})

/** Faults of a cluster of three, which replicates every message. */
const clusterFaults: Record<string, (nodes: NatsNode[], copies: string[]) => Promise<void>> = {
  'one server is replaced by an empty one': ([first]) => natsDamage.wipe(first!),
  'one server is set back': ([first], [copy]) => natsDamage.setBack(first!, copy!),
  'one server has a flipped bit in each block': ([first]) => natsDamage.flipBit(first!),
  'all servers lose their stores at once': async (nodes) => {
    for (const node of nodes) await natsDamage.wipe(node)
  },
  'all servers are set back': async (nodes, copies) => {
    for (const [at, node] of nodes.entries()) await natsDamage.setBack(node, copies[at]!)
  },
}

describe('no event is lost, repeated or out of order on a cluster if', () => {
  test.concurrent.each(Object.keys(clusterFaults))('%s', async (fault) => {
    const cluster = await startNatsCluster()
    if (!cluster) return
    await using _ = cluster
    const urlOf = (user: NatsUser) =>
      cluster.urls.map((url) => url.replace('nats://', `nats://${user}:${natsPasswordOf(user)}@`)).join(',')
    await using pipeline = await givenPipeline({
      sender: urlOf('licensing'),
      receiver: urlOf('notifier'),
      replicas: 3,
    })
    const change = givenChanges(pipeline)
    await pipeline.producer.start()
    await pipeline.consumer.start()
    await change.next()
    await expectAll(pipeline, change.committed())
    const copies = await Promise.all(cluster.nodes.map(copyNatsStore))
    await change.next()
    await expectAll(pipeline, change.committed())
    await pipeline.consumer.stop()
    const changing = change.next()
    await clusterFaults[fault]!(cluster.nodes, copies)
    for (const node of cluster.nodes) await node.start()
    await changing
    await pipeline.consumer.start()
    await change.next()
    await expectAll(pipeline, change.committed())
  })
})

/** Commits more events of each account. */
function givenChanges(pipeline: Pipeline) {
  let committed = 0
  return {
    committed: () => committed,
    async next() {
      const from = committed + 1
      committed += each
      await Promise.all(accounts.map((account) => pipeline.change(account, from, from + each - 1)))
    },
  }
}

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
