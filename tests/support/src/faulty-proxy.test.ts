import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { startFaultyProxy } from './faulty-proxy.ts'
import { eventually } from './poll.ts'

/** A server that echoes every byte. */
async function givenEcho() {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.pipe(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}

async function givenClient(port: number) {
  const socket = connect(port, '127.0.0.1')
  const heard: Buffer[] = []
  let error: string | undefined
  socket.on('data', (bytes: Buffer) => heard.push(bytes))
  socket.on('error', (problem: NodeJS.ErrnoException) => (error = problem.code))
  await once(socket, 'connect')
  return {
    socket,
    say: (text: string | Buffer) => void socket.write(text),
    heard: () => Buffer.concat(heard).toString(),
    bytes: () => Buffer.concat(heard),
    error: () => error,
    [Symbol.asyncDispose]: async () => void socket.destroy(),
  }
}

test('passes on every byte in order, also more than its buffers hold, and the end of the connection', async () => {
  await using echo = await givenEcho()
  await using proxy = await startFaultyProxy(echo.address)
  await using client = await givenClient(proxy.port)
  const sent = Buffer.from(Uint8Array.from({ length: 5_000_000 }, (_, at) => (at * 31) % 251))
  client.say(sent)
  await eventually(() => client.bytes().length === sent.length)
  expect(client.bytes().equals(sent)).toBe(true)
  client.socket.end()
  await once(client.socket, 'end')
  await eventually(() => proxy.open === 0)
})

test('held and delayed bytes arrive later, in order', async () => {
  await using echo = await givenEcho()
  await using proxy = await startFaultyProxy(echo.address)
  await using client = await givenClient(proxy.port)
  proxy.hold('to-client')
  for (const letter of 'abcdef') client.say(letter)
  client.say('g')
  expect(client.heard()).toBe('')
  proxy.flow()
  await eventually(() => client.heard() === 'abcdefg')
  proxy.delay(100)
  const startedAt = performance.now()
  for (const letter of 'hijk') client.say(letter)
  await eventually(() => client.heard() === 'abcdefghijk')
  expect(performance.now() - startedAt).toBeGreaterThan(190)
})

test('swallowed bytes never arrive, and their connection is reset', async () => {
  await using echo = await givenEcho()
  await using proxy = await startFaultyProxy(echo.address)
  await using client = await givenClient(proxy.port)
  await using idle = await givenClient(proxy.port)
  client.say('a')
  await eventually(() => client.heard() === 'a')
  proxy.swallow('to-client')
  client.say('b')
  await eventually(() => proxy.swallowed === 1)
  proxy.flow()
  await eventually(() => client.error() === 'ECONNRESET')
  expect(client.heard()).toBe('a')
  idle.say('still here')
  await eventually(() => idle.heard() === 'still here')
})

test('cuts a connection in the middle of a message', async () => {
  await using echo = await givenEcho()
  await using proxy = await startFaultyProxy(echo.address)
  await using client = await givenClient(proxy.port)
  await eventually(() => proxy.open === 1)
  proxy.cutAfter(3)
  client.say('abcdef')
  await eventually(() => client.error() === 'ECONNRESET')
  expect('abc'.startsWith(client.heard())).toBe(true)
})

test('refuses connections until flow() is called', async () => {
  await using echo = await givenEcho()
  await using proxy = await startFaultyProxy(echo.address)
  await using client = await givenClient(proxy.port)
  proxy.refuse()
  await eventually(() => client.error() === 'ECONNRESET')
  const refused = connect(proxy.port, '127.0.0.1')
  const [error] = (await once(refused, 'error')) as [NodeJS.ErrnoException]
  expect(error.code).toBe('ECONNRESET')
  proxy.flow()
  await using again = await givenClient(proxy.port)
  again.say('back')
  await eventually(() => again.heard() === 'back')
})
