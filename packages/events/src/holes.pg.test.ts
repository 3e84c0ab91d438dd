import { eventually } from '@licensing/test-support/poll'
import { connect, nanos } from 'nats'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { partitionCount, partitionOf } from './partitions.ts'
import { startRelay } from './relay.ts'
import { byAccount, consume, effectsOf, givenServers, log, upTo, whenChanged } from './testing/given.ts'

const account = 'acct_a'

async function holes(): Promise<number> {
  const text = await register.getSingleMetricAsString('events_holes_total')
  return Number(/events_holes_total\{stream="LICENSING_EVENTS"\} (\d+)/.exec(text)?.[1] ?? 0)
}

/** A consumer that has consumed five events, and one that takes over deliveries of its partition. */
async function givenThief() {
  await using starting = new AsyncDisposableStack()
  const { sql, server } = starting.use(await givenServers())
  const nats = starting.adopt(await connectNats(server.url, 'test', log), (open) => open.close())
  const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: 1, log })
  starting.defer(() => relay.stop())
  const consumer = consume({ sql, nats })
  starting.defer(() => consumer.stop())
  await eventually(() => consumer.held().length === partitionCount)
  await whenChanged(sql, account, 1, 5)
  await eventually(async () => expect(await effectsOf(sql)).toHaveLength(5))

  const thief = starting.adopt(await connect({ servers: server.url }), (open) => open.close())
  const manager = await thief.jetstreamManager()
  const consumers = await manager.consumers.list('LICENSING_EVENTS').next()
  const { name } = consumers.find((each) => each.name.startsWith(`notifier-${partitionOf(account)}-`))!
  let stolen = 0
  thief.subscribe('stolen', { callback: (_, { reply }) => void (stolen += reply ? 1 : 0) })
  const running = starting.move()
  return {
    sql,
    stolen: () => stolen,
    async steal(batch: number) {
      const request = JSON.stringify({ batch, expires: nanos(30_000) })
      thief.publish(`$JS.API.CONSUMER.MSG.NEXT.LICENSING_EVENTS.${name}`, request, { reply: 'stolen' })
      await thief.flush()
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('deliveries that go elsewhere while the connection stands are noticed, counted and read again, in order', async () => {
  await using given = await givenThief()
  const { sql } = given
  for (let request = 0; request < 20; request += 1) await given.steal(2)
  const before = await holes()
  await whenChanged(sql, account, 6, 200)
  await eventually(async () => expect(byAccount(await effectsOf(sql))).toEqual({ [account]: upTo(200) }))
  expect(given.stolen()).toBeGreaterThan(0)
  expect(await holes()).toBeGreaterThan(before)
})

test('deliveries lost at the end of a burst are read again though nothing follows them', async () => {
  await using given = await givenThief()
  const { sql } = given
  // One event at a time until one has gone elsewhere: it is the last one.
  for (let number = 6; given.stolen() === 0; number += 1) {
    await given.steal(1)
    await whenChanged(sql, account, number, number)
    await eventually(async () => expect(given.stolen() + (await effectsOf(sql)).length).toBe(number))
  }
  const arrived = (await effectsOf(sql)).length
  await eventually(async () => expect(await effectsOf(sql)).toHaveLength(arrived + 1))
  expect(byAccount(await effectsOf(sql))).toEqual({ [account]: upTo(arrived + 1) })
})

test('a request for messages outlasts those it asks for, since NATS before 2.9.16 may end one without an answer', async () => {
  await using starting = new AsyncDisposableStack()
  const { sql, server } = starting.use(await givenServers())
  const observer = starting.adopt(await connect({ servers: server.url }), (open) => open.close())
  const requests: { batch: number; expires: number }[] = []
  observer.subscribe('$JS.API.CONSUMER.MSG.NEXT.LICENSING_EVENTS.>', {
    callback: (_, message) => void requests.push(message.json()),
  })
  await observer.flush()
  const nats = starting.adopt(await connectNats(server.url, 'test', log), (open) => open.close())
  const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: 1, log })
  starting.defer(() => relay.stop())
  const consumer = consume({ sql, nats })
  starting.defer(() => consumer.stop())
  await eventually(() => expect(requests.length).toBeGreaterThanOrEqual(partitionCount))
  for (const { expires } of requests) expect(expires).toBeGreaterThanOrEqual(nanos(3_600_000))
})
