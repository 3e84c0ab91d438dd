import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { createResolver } from './resolver.ts'
import { startReceiver, startTcpReceiver, startTlsReceiver } from '../../test/receiver.ts'
import { attemptTo, givenSender } from '../../test/sender.ts'

// For receivers that end the attempt themselves: a handshake may take seconds on a busy machine.
const timeoutMs = 20_000
// For receivers that prevent the request or its response.
const shortMs = 1_500
// These receivers never stop by themselves: without a limit, an attempt lasts until the test times out.
const lateMs = 5_000

/** Makes one attempt, and expects it to end near its deadline at the latest. */
async function attempt(url: string, options: Parameters<typeof givenSender>[0] = {}) {
  await using sender = givenSender({ timeoutMs, ...options })
  const startedAt = performance.now()
  const result = await sender.send(attemptTo(url))
  expect(performance.now() - startedAt).toBeLessThan((options.timeoutMs ?? timeoutMs) + lateMs)
  expect(sender.stats.inFlight).toBe(0)
  return { ...result, idleConnections: sender.stats.idleConnections }
}

const timedOut = {
  outcome: 'failed',
  responseCode: null,
  error: 'timeout',
  responseExcerpt: null,
  idleConnections: 0,
}

// These tests wait for a deadline, and wait at the same time.
test.concurrent(
  'an attempt at a receiver that never answers ends after five seconds, and its connection is closed',
  async () => {
    const closed = Promise.withResolvers<void>()
    await using receiver = await startReceiver((request) =>
      request.socket.once('close', () => closed.resolve()),
    )
    await using sender = givenSender()
    const { durationMs, ...result } = await sender.send(attemptTo(receiver.url))
    const { idleConnections } = sender.stats
    expect({ ...result, idleConnections }).toMatchObject({
      ...timedOut,
      detail: 'no answer within 5 seconds',
    })
    expect(durationMs).toBeGreaterThanOrEqual(4950)
    expect(durationMs).toBeLessThan(5000 + lateMs)
    await closed.promise
  },
)

test.concurrent.each([
  [200, 'delivered', null],
  [500, 'failed', 'status'],
])('an endless body does not change the result of a %i', async (status, outcome, error) => {
  await using receiver = await startReceiver((_, response) => {
    response.writeHead(status)
    const timer = setInterval(() => response.write('a'), 50)
    response.once('close', () => clearInterval(timer))
  })
  const result = await attempt(receiver.url, { timeoutMs: 6_000 })
  expect(result).toMatchObject({ outcome, error, responseCode: status, idleConnections: 0 })
  expect(result.responseExcerpt).toMatch(/^a{1,130}$/)
})
const detail = 'no connection within 1.5 seconds'

test.concurrent('a stalled handshake counts against the deadline of the attempt', async () => {
  await using receiver = await startTcpReceiver(() => {})
  expect(await attempt(receiver.url, { timeoutMs: shortMs })).toMatchObject({ ...timedOut, detail })
})

test.concurrent('a slow name resolution counts against the deadline of the attempt', async () => {
  const resolve = createResolver(() => new Promise(() => {}))
  const result = await attempt('https://receiver.test/', { timeoutMs: shortMs, resolve })
  expect(result).toMatchObject({ ...timedOut, detail })
})

test.concurrent(
  'a response whose head arrives slowly counts against the deadline of the attempt',
  async () => {
    await using receiver = await startTlsReceiver((socket) => {
      const letters = 'HTTP/1.1 200 OK\r\nX-Long: '.split('')
      const timer = setInterval(() => socket.write(letters.shift() ?? 'a'), 20)
      socket.once('close', () => clearInterval(timer))
    })
    expect(await attempt(receiver.url, { timeoutMs: shortMs })).toMatchObject(timedOut)
  },
)

test('an endless sequence of informational responses is cut', async () => {
  await using receiver = await startTlsReceiver((socket) => {
    socket.once('data', () => {
      const timer = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 1)
      socket.once('close', () => clearInterval(timer))
    })
  })
  expect(await attempt(receiver.url)).toMatchObject({
    outcome: 'failed',
    error: 'protocol',
  })
})

test('an endless body is read to 64 KiB, and 1 KiB of it is kept', async () => {
  let sent = 0
  const closed = Promise.withResolvers<void>()
  await using receiver = await startReceiver((_, response) => {
    const chunk = Buffer.alloc(16_384, 'x')
    const more = () => {
      do sent += chunk.length
      while (response.write(chunk))
    }
    response.on('drain', more).once('close', () => closed.resolve())
    more()
  })
  const result = await attempt(receiver.url)
  expect(result).toMatchObject({
    outcome: 'delivered',
    responseCode: 200,
    responseExcerpt: 'x'.repeat(1024),
    idleConnections: 0,
  })
  expect(result.durationMs).toBeLessThan(15_000)
  await closed.promise
  // The receiver could send only as much of the endless stream as the kernel buffers.
  expect(sent).toBeLessThan(16 * 1024 * 1024)
})

test('a compressed body is not decompressed', async () => {
  const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024))
  await using receiver = await startReceiver((_, response) => {
    response.writeHead(500, { 'Content-Encoding': 'gzip' }).end(bomb)
  })
  const result = await attempt(receiver.url)
  expect(result).toMatchObject({ outcome: 'failed', responseCode: 500 })
  // The two bytes that begin a gzip file; the second is no UTF-8.
  expect(result.responseExcerpt).toSatisfy((text: string) => text.startsWith('\u001f\ufffd'))
})

test.each([
  {
    what: 'is cut before the response',
    start: () => startTlsReceiver((socket) => void socket.once('data', () => socket.destroy())),
    error: 'reset',
  },
  {
    what: 'is reset during the handshake',
    start: () => startTcpReceiver((socket) => void socket.once('data', () => socket.resetAndDestroy())),
    error: 'reset',
  },
  {
    what: 'does not speak TLS',
    start: () => startTcpReceiver((socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')),
    error: 'tls',
  },
])('an attempt whose connection $what fails, and is not repeated', async ({ start, error }) => {
  await using receiver = await start()
  expect(await attempt(receiver.url)).toMatchObject({ outcome: 'failed', responseCode: null, error })
  expect(receiver.connections()).toBe(1)
})

test('a 2xx response acknowledges, also if its body is cut', async () => {
  await using receiver = await startTlsReceiver((socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\npart'))
  })
  expect(await attempt(receiver.url)).toMatchObject({
    outcome: 'delivered',
    responseCode: 202,
    error: null,
    responseExcerpt: 'part',
    idleConnections: 0,
  })
})

test('a closed port fails at once', async () => {
  const receiver = await startReceiver(() => {})
  await receiver[Symbol.asyncDispose]()
  expect(await attempt(receiver.url)).toMatchObject({
    outcome: 'failed',
    error: 'connect',
    detail: 'the connection was refused',
  })
})

test('many attempts at a receiver that resets every connection leave no connection open', async () => {
  await using receiver = await startTcpReceiver((socket) => socket.resetAndDestroy())
  await using sender = givenSender({ timeoutMs })
  const results = await Promise.all(Array.from({ length: 50 }, () => sender.send(attemptTo(receiver.url))))
  expect(results.every(({ outcome }) => outcome === 'failed')).toBe(true)
  expect(sender.stats).toMatchObject({ inFlight: 0, idleConnections: 0, resends: 0 })
})
