import { startNatsCluster } from '@licensing/test-support/nats-cluster'
import { natsPasswordOf } from '@licensing/test-support/nats-users'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { upTo } from './testing/given.ts'
import { givenPipeline } from './testing/pipeline.ts'

test('each NATS server in turn is cut off from the others, but not from its clients: events arrive meanwhile, each once, in order', async () => {
  await using cluster = await startNatsCluster({ cuttable: true })
  if (!cluster) return
  const urlsOf = (user: string) =>
    cluster.urls.map((url) => url.replace('nats://', `nats://${user}:${natsPasswordOf(user)}@`)).join(',')
  await using pipeline = await givenPipeline({
    sender: urlsOf('licensing'),
    receiver: urlsOf('notifier'),
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
  for (const node of cluster.nodes) {
    node.cutOff()
    await changeAndExpectAll()
    await changeAndExpectAll()
    node.rejoin()
    await changeAndExpectAll()
  }
  expect(await pipeline.consumer.sql`select error from dead_letters`).toEqual([])
})
