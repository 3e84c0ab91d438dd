import { connect } from 'nats'
import { expect, test } from 'vitest'
import { startOwnNats } from './nats.ts'

test('a test’s NATS server keeps its streams and its address after a kill', async () => {
  await using nats = await startOwnNats()
  const before = await connect({ servers: nats.url, reconnect: false })
  const manager = await before.jetstreamManager()
  await manager.streams.add({ name: 'KEPT', subjects: ['kept.>'] })
  await before.jetstream().publish('kept.one', 'payload')
  const { url } = nats
  await nats.kill()
  await expect(connect({ servers: url, reconnect: false })).rejects.toThrow('CONNECTION_REFUSED')
  await nats.start()
  expect(nats.url).toBe(url)
  await using connection = await connect({ servers: url }).then((nc) => ({
    nc,
    [Symbol.asyncDispose]: () => nc.close(),
  }))
  const stream = await (await connection.nc.jetstreamManager()).streams.info('KEPT')
  expect(stream.state.messages).toBe(1)
})
