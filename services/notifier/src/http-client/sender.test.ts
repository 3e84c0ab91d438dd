import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { oldBytesOf } from '@licensing/test-support/old-generation'
import { expect, test, vi } from 'vitest'
import { startReceiver, startTlsReceiver } from '../../test/receiver.ts'
import { attemptTo, givenSender } from '../../test/sender.ts'

test('a cleared deadline does not keep its callback in memory', async () => {
  const given = `
    import { Deadline } from './sender.ts'
    const operation = () => {
      const held = new Array(50).fill(0)
      const deadline = new Deadline(60_000)
      deadline.onEnd(() => held)
      deadline.clear()
    }`
  expect(await oldBytesOf({ given, from: import.meta.dirname, times: 200_000 })).toBeLessThan(50)
})

const ok = (_request: IncomingMessage, response: ServerResponse) => void response.end('thanks')

test('a request has exactly the given bytes and headers', async () => {
  const seen: unknown[] = []
  await using receiver = await startReceiver((request, response) => {
    const { method, url, headers } = request
    void buffer(request).then((body) => {
      seen.push({ method, url, headers, body })
      response.writeHead(200).end('thanks')
    })
  })
  await using sender = givenSender()
  const body = Buffer.from('{"name": "Grüße",\n "n":1.0}')
  const headers = ['Content-Type', 'application/json', 'Webhook-Id', 'evt_1']
  const result = await sender.send(attemptTo(`${receiver.url}?a=1&b=%20`, { body, headers }))
  expect(result).toEqual({
    outcome: 'delivered',
    responseCode: 200,
    error: null,
    detail: null,
    forOperator: null,
    durationMs: expect.any(Number) as number,
    responseExcerpt: 'thanks',
    retryAfterSeconds: null,
  })
  expect(seen).toEqual([
    {
      method: 'POST',
      url: '/hook?a=1&b=%20',
      body,
      headers: {
        host: `receiver.test:${receiver.port}`,
        'content-type': 'application/json',
        'webhook-id': 'evt_1',
        'content-length': String(body.length),
        connection: 'keep-alive',
      },
    },
  ])
})

test('a response acknowledges if and only if its status is a 2xx', async () => {
  await using receiver = await startReceiver(({ url }, response) => {
    // Early hints are not the response.
    response.writeEarlyHints({ link: '</style.css>; rel=preload' })
    response.writeHead(Number(url!.slice(1))).end()
  })
  await using sender = givenSender()
  for (const status of [200, 201, 202, 204, 299, 300, 304, 400, 401, 404, 410, 422, 500, 503]) {
    const isAcknowledged = status < 300
    const { href } = new URL(`/${status}`, receiver.url)
    expect(await sender.send(attemptTo(href))).toMatchObject({
      outcome: isAcknowledged ? 'delivered' : 'failed',
      responseCode: status,
      error: isAcknowledged ? null : 'status',
      detail: status >= 300 && status < 400 ? 'redirects are not followed' : null,
      responseExcerpt: null,
    })
  }
})

test('deliveries to one endpoint share a connection, and another endpoint has its own', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender()
  for (let i = 0; i < 5; i++) await sender.send(attemptTo(receiver.url))
  expect(receiver.connections()).toBe(1)
  await sender.send(attemptTo(receiver.url, { endpointId: 'whe_2' }))
  expect(receiver.connections()).toBe(2)
  expect(sender.stats).toEqual({ inFlight: 0, idleConnections: 2, connectionsOpened: 2, resends: 0 })
  // A forgotten endpoint has no connection any more.
  sender.closeConnections('whe_1')
  expect(sender.stats.idleConnections).toBe(1)
})

test('simultaneous deliveries never share a connection, and each gets its own response', async () => {
  const waiting: (() => void)[] = []
  await using receiver = await startReceiver((request, response) => {
    waiting.unshift(() => response.end(request.headers['webhook-id']))
    if (waiting.length === 16) for (const answer of waiting) answer()
  })
  await using sender = givenSender()
  const ids = Array.from({ length: 16 }, (_, i) => `evt_${i}`)
  const results = await Promise.all(
    ids.map((id) => sender.send(attemptTo(receiver.url, { headers: ['Webhook-Id', id] }))),
  )
  expect(results.map((result) => result.responseExcerpt)).toEqual(ids)
  expect(receiver.connections()).toBe(16)
})

test('a later connection to a host resumes its TLS session', async () => {
  const resumed: boolean[] = []
  await using receiver = await startTlsReceiver((socket) => {
    resumed.push(socket.isSessionReused())
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
  })
  await using sender = givenSender({ connectionLimits: { maxAgeMs: 0, idleLifeMs: 45_000 } })
  for (let i = 0; i < 3; i++) expect((await sender.send(attemptTo(receiver.url))).outcome).toBe('delivered')
  expect(resumed).toEqual([false, true, true])
})

test('a connection that is too old is not used again', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({ connectionLimits: { maxAgeMs: 2_000, idleLifeMs: 45_000 } })
  await sender.send(attemptTo(receiver.url))
  await sender.send(attemptTo(receiver.url))
  expect(receiver.connections()).toBe(1)
  await vi.waitFor(
    async () => {
      await sender.send(attemptTo(receiver.url))
      expect(receiver.connections()).toBe(2)
    },
    { interval: 50, timeout: 30_000 },
  )
})

test('a connection that is idle for too long is closed', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({ connectionLimits: { maxAgeMs: 60_000, idleLifeMs: 100 } })
  await sender.send(attemptTo(receiver.url))
  expect(sender.stats.idleConnections).toBe(1)
  await vi.waitFor(() => expect(sender.stats.idleConnections).toBe(0), { timeout: 30_000 })
})

test.each([
  [
    'the server announces to close',
    () => startReceiver((_, response) => void response.writeHead(200, { Connection: 'close' }).end()),
  ],
  ['the server’s Keep-Alive no longer allows', () => startReceiver(ok, { keepAliveTimeout: 2000 })],
])('a connection that %s is not used again', async (_, start) => {
  await using receiver = await start()
  await using sender = givenSender()
  for (let i = 0; i < 2; i++) expect((await sender.send(attemptTo(receiver.url))).outcome).toBe('delivered')
  expect(sender.stats).toEqual({ inFlight: 0, idleConnections: 0, connectionsOpened: 2, resends: 0 })
})

test('an idle connection that the server closes is removed', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender()
  await sender.send(attemptTo(receiver.url))
  receiver.cut()
  await vi.waitFor(() => expect(sender.stats.idleConnections).toBe(0), { timeout: 30_000 })
})

test('over the cap, the connection that has been idle longest is closed', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender({ maxIdleConnections: 2 })
  for (const endpointId of ['whe_1', 'whe_2', 'whe_1', 'whe_3', 'whe_1']) {
    await sender.send(attemptTo(receiver.url, { endpointId }))
  }
  expect(sender.stats).toMatchObject({ idleConnections: 2, connectionsOpened: 3 })
  await sender.send(attemptTo(receiver.url, { endpointId: 'whe_2' }))
  expect(sender.stats).toMatchObject({ idleConnections: 2, connectionsOpened: 4 })
})

test.each([
  {
    when: 'sent again once, as the same attempt, if the connection is dead',
    second: (socket: TLSSocket) => socket.destroy(),
    result: { outcome: 'delivered' },
    stats: { connectionsOpened: 2, resends: 1 },
    requestCount: 3,
  },
  {
    when: 'not sent again after a byte of a response was received',
    second: (socket: TLSSocket) => socket.end('HTTP/1.1 50'),
    result: { outcome: 'failed', responseCode: null, error: 'reset' },
    stats: { connectionsOpened: 1, resends: 0 },
    requestCount: 2,
  },
])('a request on a kept connection is $when', async ({ second, result, stats, requestCount }) => {
  let requests = 0
  await using receiver = await startTlsReceiver((socket) => {
    let served = 0
    socket.on('data', () => {
      requests += 1
      if (++served > 1) second(socket)
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    })
  })
  await using sender = givenSender()
  await sender.send(attemptTo(receiver.url))
  expect(await sender.send(attemptTo(receiver.url))).toMatchObject(result)
  expect(sender.stats).toMatchObject(stats)
  expect(requests).toBe(requestCount)
})

test('bytes that a server sends on an idle connection are never a response to the next request', async () => {
  let connections = 0
  await using receiver = await startTlsReceiver((socket) => {
    const isFirst = ++connections === 1
    socket.on('data', () => {
      const body = isFirst ? 'first' : 'second'
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      if (isFirst) setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged'), 20)
    })
  })
  await using sender = givenSender()
  await sender.send(attemptTo(receiver.url))
  await vi.waitFor(() => expect(sender.stats.idleConnections).toBe(0), { timeout: 30_000 })
  expect((await sender.send(attemptTo(receiver.url))).responseExcerpt).toBe('second')
})

test('close waits for requests in flight and leaves no connection open', async () => {
  const arrived = Promise.withResolvers<ServerResponse>()
  await using receiver = await startReceiver((_, response) => arrived.resolve(response))
  await using sender = givenSender()
  const sending = sender.send(attemptTo(receiver.url))
  const response = await arrived.promise
  const closing = sender.close()
  const closed = once(response.req.socket, 'close')
  response.end('done')
  expect((await sending).responseExcerpt).toBe('done')
  await closing
  await closed
  expect(sender.stats).toMatchObject({ inFlight: 0, idleConnections: 0 })
})

test('an invalid header is reported as a fault of the caller', async () => {
  await using receiver = await startReceiver(ok)
  await using sender = givenSender()
  await expect(sender.send(attemptTo(receiver.url, { headers: ['Bad Name', 'x'] }))).rejects.toThrow(
    'invalid header',
  )
  expect(sender.stats.inFlight).toBe(0)
})

test('responses that arrive at the same time on many connections are not mixed up', async () => {
  await using receiver = await startReceiver((request, response) => {
    response.write(`${request.url} `.repeat(20))
    // Sent in pieces, between the pieces of the other responses.
    setImmediate(() => response.end(`${request.url} `.repeat(20)))
  })
  await using sender = givenSender()
  for (let round = 0; round < 3; round += 1) {
    const paths = Array.from({ length: 40 }, (_, at) => `/hook/${round}/${at}`)
    const results = await Promise.all(
      paths.map((path, at) => {
        const url = new URL(path, receiver.url).href
        return sender.send(attemptTo(url, { endpointId: `whe_${at}` }))
      }),
    )
    expect(results.map(({ responseExcerpt }) => responseExcerpt)).toEqual(
      paths.map((path) => `${path} `.repeat(40)),
    )
  }
})
