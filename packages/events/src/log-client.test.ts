import { create, toBinary } from '@bufbuild/protobuf'
import { ReadLogResponseSchema } from '@licensing/proto/event-log'
import { logSubjectOf } from '@licensing/proto/event-streams'
import { startOwnNats } from '@licensing/test-support/nats'
import type { Msg } from 'nats'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { LogClient } from './log-client.ts'
import { log } from './testing/given.ts'

test('a reader judges missing batches by the numbers of its own answer, not of a later answer', async () => {
  await using server = await startOwnNats()
  const producer = await connectNats(server.urlOf('licensing'), 'licensing', log)
  const consumer = await connectNats(server.urlOf('notifier'), 'notifier', log)
  const requests: Msg[] = []
  producer.connection.subscribe(logSubjectOf('licensing', 'notifier'), {
    callback: (_, message) => {
      requests.push(message)
      if (requests.length < 2) return
      // The log gains a batch between the two answers, which arrive together.
      for (const [at, request] of requests.entries()) {
        const numbers = Array.from({ length: 8 }, () => BigInt(at))
        request.respond(toBinary(ReadLogResponseSchema, create(ReadLogResponseSchema, { numbers })))
      }
    },
  })
  await producer.connection.flush()
  const client = new LogClient(consumer, 'licensing', 'notifier')
  const [first] = await Promise.all([0, 1].map((partition) => client.read([], { partition, after: 0n })))
  expect(client.view!.numbers[0]).toBe(1n)
  expect(first!.numbers[0]).toBe(0n)
  await Promise.all([producer.close(), consumer.close()])
})
