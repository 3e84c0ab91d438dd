import { gzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { createResolver } from './resolver.ts'
import { startReceiver, startTcpReceiver, startTlsReceiver } from '../../test/receiver.ts'
import { attemptTo, givenSender } from '../../test/sender.ts'

// For receivers that end the attempt themselves: a handshake may take seconds on a busy machine.
const timeoutMs = 20_000
// For receivers that get the request and never end the attempt.
const afterRequestMs = 6_000
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

test('an attempt at a receiver that never answers ends after five seconds', async () => {
  await using receiver = await startReceiver(() => {})
  await using sender = givenSender()
  const result = await sender.send(attemptTo(receiver.url))
  expect(result).toMatchObject({ outcome: 'failed', error: 'timeout', detail: 'no answer within 5 seconds' })
  expect(result.durationMs).toBeGreaterThanOrEqual(4950)
  expect(result.durationMs).toBeLessThan(5000 + lateMs)
})

test('when an attempt times out, its connection is closed', async () => {
  const closed = Promise.withResolvers<void>()
  await using receiver = await startReceiver((request) =>
    request.socket.once('close', () => closed.resolve()),
  )
  expect(await attempt(receiver.url, { timeoutMs: afterRequestMs })).toMatchObject(timedOut)
  await closed.promise
})

test('a stalled handshake counts against the deadline of the attempt', async () => {
  await using receiver = await startTcpReceiver(() => {})
  expect(await attempt(receiver.url, { timeoutMs: shortMs })).toMatchObject({
    ...timedOut,
    detail: 'no connection within 1.5 seconds',
  })
})

test('a slow name resolution counts against the deadline of the attempt', async () => {
  const result = await attempt('https://receiver.test/', {
    timeoutMs: shortMs,
    resolve: createResolver(() => new Promise(() => {})),
  })
  expect(result).toMatchObject({ ...timedOut, detail: 'no connection within 1.5 seconds' })
})

test('a response whose head arrives slowly counts against the deadline of the attempt', async () => {
  await using receiver = await startTlsReceiver((socket) => {
    const letters = 'HTTP/1.1 200 OK\r\nX-Long: '.split('')
    const timer = setInterval(() => socket.write(letters.shift() ?? 'a'), 20)
    socket.once('close', () => clearInterval(timer))
  })
  expect(await attempt(receiver.url, { timeoutMs: shortMs })).toMatchObject(timedOut)
})

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

test.each([
  [200, 'delivered', null],
  [500, 'failed', 'status'],
])('an endless body does not change the result of a %i', async (status, outcome, error) => {
  await using receiver = await startReceiver((_, response) => {
    response.writeHead(status)
    const timer = setInterval(() => response.write('a'), 50)
    response.once('close', () => clearInterval(timer))
  })
  const result = await attempt(receiver.url, { timeoutMs: afterRequestMs })
  expect(result).toMatchObject({ outcome, error, responseCode: status, idleConnections: 0 })
  expect(result.responseExcerpt).toMatch(/^a{1,130}$/)
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

test('an attempt whose connection is cut before the response fails, and is not repeated', async () => {
  await using receiver = await startTlsReceiver((socket) => void socket.once('data', () => socket.destroy()))
  expect(await attempt(receiver.url)).toMatchObject({ outcome: 'failed', responseCode: null, error: 'reset' })
  expect(receiver.connections()).toBe(1)
})

test('a connection reset during the handshake fails', async () => {
  await using receiver = await startTcpReceiver(
    (socket) => void socket.once('data', () => socket.resetAndDestroy()),
  )
  expect(await attempt(receiver.url)).toMatchObject({ outcome: 'failed', responseCode: null, error: 'reset' })
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

test('a server that does not speak TLS fails', async () => {
  await using receiver = await startTcpReceiver(
    (socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
  )
  expect(await attempt(receiver.url)).toMatchObject({ outcome: 'failed', error: 'tls' })
})

test('a redirect is a failure and is not followed', async () => {
  await using inner = await startReceiver((_, response) => void response.end())
  await using receiver = await startReceiver((_, response) => {
    response.writeHead(307, { Location: inner.url }).end()
  })
  expect(await attempt(receiver.url)).toMatchObject({
    outcome: 'failed',
    responseCode: 307,
    error: 'status',
    detail: 'redirects are not followed',
  })
  expect(inner.connections()).toBe(0)
})

test('many attempts at a receiver that resets every connection leave no connection open', async () => {
  await using receiver = await startTcpReceiver((socket) => socket.resetAndDestroy())
  await using sender = givenSender({ timeoutMs })
  const results = await Promise.all(Array.from({ length: 50 }, () => sender.send(attemptTo(receiver.url))))
  expect(results.every(({ outcome }) => outcome === 'failed')).toBe(true)
  expect(sender.stats).toMatchObject({ inFlight: 0, idleConnections: 0, resends: 0 })
})

test('many receivers that never answer do not slow down a receiver that answers', async () => {
  await using silent = await startReceiver(() => {})
  await using healthy = await startReceiver((_, response) => void response.end())
  await using sender = givenSender({ timeoutMs: 10_000 })
  const dead = Array.from({ length: 30 }, (_, i) =>
    sender.send(attemptTo(silent.url, { endpointId: `whe_dead_${i}` })),
  )
  await vi.waitFor(() => expect(silent.connections()).toBe(30), { timeout: 9_000 })
  const { outcome, durationMs } = await sender.send(attemptTo(healthy.url, { endpointId: 'whe_healthy' }))
  expect({ outcome, isQuick: durationMs < 5_000 }).toEqual({ outcome: 'delivered', isQuick: true })
  expect((await Promise.all(dead)).every(({ error }) => error === 'timeout')).toBe(true)
})
