import { fullTest } from '@licensing/test-support/drawn'
import { createLogger } from '@licensing/process/log'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connectNats, serversOf } from './connection.ts'

test('user and password of the address are passed to the client separately', () => {
  expect(serversOf('nats://licensing:p%40ss@a:4222, nats://b:4223')).toEqual({
    servers: ['a:4222', 'b:4223'],
    user: 'licensing',
    pass: 'p@ss',
  })
})

test('without a user there is only the address', () => {
  expect(serversOf('nats://[::1]:4222,b:4222')).toEqual({ servers: ['[::1]:4222', 'b:4222'] })
})

fullTest(
  'a connection that accepts no more data is replaced by a new one with the same subscriptions',
  async () => {
    await using server = await startOwnNats()
    await using proxy = await startFaultyProxy(new URL(server.url).host)
    const nats = await connectNats(`nats://${proxy.address}`, 'test', createLogger('test', 'silent'))
    const received: string[] = []
    const unsubscribe = nats.subscribe('greetings', (message) => received.push(message.string()))
    proxy.hold('to-server')
    // More data than the buffers between client and server can hold, so that the client cannot flush.
    const megabyte = Buffer.alloc(1_000_000)
    for (let sent = 0; sent < 30; sent += 1) nats.connection.publish('anything', megabyte)
    await eventually(() => expect(nats.connected()).toBe(false))
    proxy.flow()
    await nats.whenConnected(AbortSignal.timeout(60_000))
    expect(nats.connected()).toBe(true)
    nats.connection.publish('greetings', 'first')
    await eventually(() => expect(received).toEqual(['first']))
    unsubscribe()
    nats.connection.publish('greetings', 'second')
    await nats.connection.flush()
    expect(received).toEqual(['first'])
    await nats.close()
  },
)

fullTest(
  'a connection that becomes silent is replaced within seconds, with the same subscriptions',
  async () => {
    await using server = await startOwnNats()
    await using proxy = await startFaultyProxy(new URL(server.url).host)
    const nats = await connectNats(`nats://${proxy.address}`, 'test', createLogger('test', 'silent'))
    const received: string[] = []
    nats.subscribe('greetings', (message) => received.push(message.string()))
    await nats.connection.flush()
    proxy.silence()
    await eventually(() => proxy.accepted > 1 && nats.connected(), { timeoutMs: 15_000 })
    nats.connection.publish('greetings', 'first')
    await eventually(() => expect(received).toEqual(['first']))
    await nats.close()
  },
)
