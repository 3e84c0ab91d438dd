import { startNatsCluster } from '@licensing/test-support/nats-cluster'
import { natsPasswordOf } from '@licensing/test-support/nats-users'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { upTo } from './testing/given.ts'
import { givenPipeline } from './testing/pipeline.ts'

test.concurrent.each([
  ['sender', 0, 1],
  ['consumer', 1, 0],
  ['sender and the consumer', 0, 0],
])(
  'with the %s at a NATS server that is cut off from the others, events arrive meanwhile, each once, in order',
  async (_, sender, receiver) => {
    await using cluster = await startNatsCluster({ cuttable: true })
    if (!cluster) return
    // The server tells its clients of the others.
    const urlOf = (user: string, at: number) =>
      cluster.urls[at]!.replace('nats://', `nats://${user}:${natsPasswordOf(user)}@`)
    await using pipeline = await givenPipeline({
      sender: urlOf('licensing', sender),
      receiver: urlOf('notifier', receiver),
      replicas: 3,
    })
    await pipeline.producer.start()
    await pipeline.consumer.start()
    let committed = 0
    const changeAndExpectAll = async () => {
      await pipeline.change('acct_1', committed + 1, committed + 20)
      committed += 20
      await eventually(async () => expect((await pipeline.consumed())['acct_1']).toEqual(upTo(committed)), {
        timeoutMs: 60_000,
      })
    }
    await changeAndExpectAll()
    cluster.nodes[0]!.cutOff()
    await changeAndExpectAll()
    await changeAndExpectAll()
    cluster.nodes[0]!.rejoin()
    await changeAndExpectAll()
    expect(await pipeline.consumer.sql`select error from dead_letters`).toEqual([])
  },
)
