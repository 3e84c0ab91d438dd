import { startNatsCluster } from '@licensing/test-support/nats-cluster'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { connect } from 'nats'
import type { JetStreamManager, NatsConnection } from 'nats'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { publishInOrder } from './publish.ts'
import { streamOf } from '@licensing/proto/event-streams'
import { ensureStream } from './streams.ts'

const server = await startOwnNats()
const cluster = await startNatsCluster()
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await cluster?.[Symbol.asyncDispose]()
})

const places: [replicas: number, servers: string[]][] = [
  [1, [server.url]],
  ...(cluster ? [[3, cluster.urls] satisfies [number, string[]]] : []),
]

// A replicated stream decides later, and answers otherwise, than one of a single server.
describe.each(places)('with %i replicas', (replicas, servers) => {
  let connection: NatsConnection
  let manager: JetStreamManager
  let runs = 0
  beforeAll(async () => {
    connection = await connect({ servers })
    manager = await connection.jetstreamManager()
    await ensureStream(manager, 'licensing', replicas)
    // Three servers choose a leader first.
    await eventually(() => connection.jetstream().publish('events.licensing.0.ready'))
  })
  afterAll(() => connection.close())

  /** An empty stream, a way to publish messages by number, and what the stream holds. */
  async function givenStream(subject = 'events.licensing.0.licence.suspended') {
    runs += 1
    const run = runs
    await manager.streams.purge(streamOf('licensing'))
    return {
      publish: (numbers: number[], payloads: Record<number, string> = {}) => {
        const [first, ...others] = numbers.map((number) => ({
          id: `evt_${run}_${number}`,
          subject,
          payload: Buffer.from(payloads[number] ?? String(number)),
          traceParent: number % 2 === 0 ? `trace-${number}` : null,
        }))
        return publishInOrder(connection, connection.jetstream({ timeout: 2_000 }), [first!, ...others])
      },
      stored: async () => {
        const { state } = await manager.streams.info(streamOf('licensing'))
        const found: { number: number; trace: string; id: string }[] = []
        for (let seq = Math.max(1, state.first_seq); seq <= state.last_seq; seq += 1) {
          const message = await manager.streams.getMessage(streamOf('licensing'), { seq })
          found.push({
            number: Number(Buffer.from(message.data).toString()),
            trace: message.header.get('traceparent'),
            id: message.header.get('Nats-Msg-Id').replace(`evt_${run}_`, ''),
          })
        }
        return found
      },
    }
  }

  const numbersOf = (found: { number: number }[]) => found.map(({ number }) => number)

  test.each([1, 2, 3, 500])(
    '%i messages are stored in their order, with their ids and traces',
    async (count) => {
      const { publish, stored } = await givenStream()
      const numbers = Array.from({ length: count }, (_, at) => at + 1)
      expect(await publish(numbers)).toBe(count)
      const trace = (number: number) => (number % 2 === 0 ? `trace-${number}` : '')
      expect(await stored()).toEqual(
        numbers.map((number) => ({ number, trace: trace(number), id: String(number) })),
      )
    },
  )

  test('a batch sent again, as after a crash, is stored once', async () => {
    const { publish, stored } = await givenStream()
    expect(await publish([1, 2, 3, 4])).toBe(4)
    expect(await publish([1, 2, 3, 4])).toBe(4)
    expect(await publish([3, 4, 5, 6])).toBe(4)
    expect(numbersOf(await stored())).toEqual([1, 2, 3, 4, 5, 6])
  })

  test.each([
    ['between', [1, 2, 4, 5], [1, 2, 3, 4, 5, 6, 7], [1, 2, 4, 5, 3, 6, 7]],
    ['before', [2, 3], [1, 2, 3, 4, 5], [2, 3, 1, 4, 5]],
    ['after the first of', [1, 4], [2, 3, 4, 5, 6], [1, 4, 2, 3, 5, 6]],
  ])(
    'what was committed late, %s messages that are stored already, is stored and overtaken by none after it',
    async (_, before, batch, inTheEnd) => {
      const { publish, stored } = await givenStream()
      await publish(before)
      expect(await publish(batch)).toBe(batch.length)
      expect(numbersOf(await stored())).toEqual(inTheEnd)
    },
  )

  test('what follows a message that the stream refuses is not stored', async () => {
    const { publish, stored } = await givenStream()
    const { config } = await manager.streams.info(streamOf('licensing'))
    await manager.streams.update(streamOf('licensing'), { ...config, max_msg_size: 1_000 })
    expect(await publish([1, 2, 3, 4, 5], { 3: 'too large'.repeat(1_000) })).toBe(2)
    await expect(publish([3, 4, 5], { 3: 'too large'.repeat(1_000) })).rejects.toThrow('maximum')
    expect(numbersOf(await stored())).toEqual([1, 2])
    await manager.streams.update(streamOf('licensing'), config)
    expect(await publish([3, 4, 5])).toBe(3)
    expect(numbersOf(await stored())).toEqual([1, 2, 3, 4, 5])
  })

  test('a full stream takes the rest, once each, when it has space again', async () => {
    const { publish, stored } = await givenStream()
    const { config } = await manager.streams.info(streamOf('licensing'))
    await manager.streams.update(streamOf('licensing'), { ...config, max_msgs: 3 })
    expect(await publish([1, 2, 3, 4, 5, 6])).toBe(3)
    await manager.streams.update(streamOf('licensing'), config)
    expect(await publish([4, 5, 6])).toBe(3)
    expect(numbersOf(await stored())).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('where no stream takes them, it says so', async () => {
    const { publish, stored } = await givenStream('nobody.listens')
    await expect(publish([1, 2, 3])).rejects.toThrow('503')
    expect(await stored()).toEqual([])
  })
})
