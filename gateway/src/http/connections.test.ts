import { eventually } from '@licensing/test-support/poll'
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { describe, expect, test } from 'vitest'
import { answersIn, exchange } from '../../test/exchange.ts'
import type { RawAnswer } from '../../test/exchange.ts'
import { appId, applicationDefaults, gatewayOfFile } from '../../test/gateway.ts'

let created: string[]

const gateway = await gatewayOfFile()
const requestMs = 1_000
const slow = await gatewayOfFile({ requestMs })
gateway.answers.catalog.createApplication = async ({ name }) => {
  created.push(name)
  return { ...applicationDefaults, id: appId, name }
}
gateway.answers.catalog.archivePlan = async () => ({ plan: { id: 'pln_x', status: 'retired' } })

async function answersTo(bytes: string, options?: { thenEnd: boolean }): Promise<RawAnswer[]> {
  created = []
  return answersIn(await exchange(gateway.port, bytes, options))
}

function head(requestLine: string, ...headers: string[]): string {
  return [requestLine, ...headers, `Authorization: Bearer ${gateway.apiKey}`, '', ''].join('\r\n')
}

function creation(name: string): string {
  const body = JSON.stringify({ name })
  const type = 'Content-Type: application/json'
  return head('POST /v1/apps HTTP/1.1', 'Host: x', type, `Content-Length: ${body.length}`) + body
}

function expectProblem(answer: RawAnswer | undefined, status: number, code: string): void {
  expect(answer?.status).toBe(status)
  expect(answer!.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(JSON.parse(answer!.body)).toMatchObject({
    type: `/errors/${code}`,
    title: expect.any(String),
    status,
    code,
    detail: expect.any(String),
    request_id: answer!.headers.get('x-request-id') ?? 'missing',
  })
}

test.each([
  ['declared', (body: string) => [`Content-Length: ${body.length}`, body, '']],
  [
    'chunked',
    (body: string) => [
      'Transfer-Encoding: chunked',
      `${body.length.toString(16)}\r\n${body}\r\n`,
      '0\r\n\r\n',
    ],
  ],
])(
  'a client that sends a body that is too large (%s) gets the answer, and can send the rest',
  async (_how, asSent) => {
    const [framing = '', sent = '', end] = asSent('x'.repeat(3 * 1024 * 1024))
    const socket = createConnection(gateway.port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    const closed = once(socket, 'close')
    const half = sent.length / 2
    socket.write(head('POST /v1/apps HTTP/1.1', 'Host: x', 'Content-Type: application/json', framing))
    socket.write(sent.slice(0, half))
    await eventually(() => expectProblem(answersIn(text)[0], 413, 'payload_too_large'))
    socket.write(`${sent.slice(half)}${end}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    await closed
    expect(answersIn(text).map(({ status }) => status)).toEqual([413, 200])
  },
)

describe('a request that violates HTTP gets a problem with a request id', () => {
  const closing = 'Connection: close'

  test('no Host header, or two', async () => {
    const none = await answersTo(head('GET /v1/apps HTTP/1.1', closing, 'X-Request-Id: mine'))
    expectProblem(none[0], 400, 'bad_request')
    expect(none[0]!.headers.get('x-request-id')).toBe('mine')
    expectProblem((await answersTo(head('GET /nowhere HTTP/1.1', closing)))[0], 400, 'bad_request')
    const two = await answersTo(head('GET /v1/apps HTTP/1.1', closing, 'Host: a', 'Host: b'))
    expectProblem(two[0], 400, 'bad_request')
  })

  test('input that is not HTTP', async () => {
    const longHeader = `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(40_000)}\r\n\r\n`
    for (const bytes of ['nonsense\r\n\r\n', 'GET / HTTP/9\r\n\r\n', longHeader]) {
      const [answer] = await answersTo(bytes)
      expect(answer!.status).toBeLessThan(500)
      expectProblem(answer, answer!.status, 'bad_request')
    }
  })

  test('HTTP/1.0 needs no Host', async () => {
    const [answer] = await answersTo('GET /healthz HTTP/1.0\r\n\r\n')
    expect(answer).toMatchObject({ status: 200, body: '{"status":"ok"}' })
  })

  test('an unknown expectation', async () => {
    for (const expectation of ['200-ok', '100-continue, nonsense', '']) {
      const headers = ['Host: x', closing, `Expect: ${expectation}`, 'X-Request-Id: e']
      const answers = await answersTo(head('GET /v1/apps HTTP/1.1', ...headers))
      const answer = answers.find(({ status }) => status !== 100)
      expectProblem(answer, 400, 'bad_request')
      expect(answer!.headers.get('x-request-id')).toBe('e')
    }
  })

  test('Expect: 100-continue is supported', async () => {
    const [first, second] = await answersTo(
      creation('waits').replace('Host: x', `Host: x\r\n${closing}\r\nExpect: 100-Continue`),
    )
    expect([first!.status, second!.status]).toEqual([100, 201])
  })

  test('CONNECT', async () => {
    for (const target of ['example.com:443', '127.0.0.1:80']) {
      const [answer] = await answersTo(`CONNECT ${target} HTTP/1.1\r\nHost: x\r\nX-Request-Id: c\r\n\r\n`)
      expectProblem(answer, 404, 'not_found')
      expect(answer!.headers.get('x-request-id')).toBe('c')
    }
    const after = await answersTo(`${creation('before')}CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n`)
    expect(after.map(({ status }) => status)).toEqual([201, 404])
    const [known] = await answersTo('CONNECT /v1/apps HTTP/1.1\r\nHost: x\r\n\r\n')
    expectProblem(known, 405, 'method_not_allowed')
    expect(known!.headers.get('allow')).toContain('POST')
  })
})

describe('an empty body is treated the same, however its length is sent', () => {
  const archive = `POST /v1/apps/${appId}/plans/pln_01k9zj3v8qe5ktw2m4x6r7n8ab/archive HTTP/1.1`
  const lengths = [
    ['Content-Length: 0', ''],
    ['Transfer-Encoding: chunked', '0\r\n\r\n'],
  ] as const

  test.each([undefined, 'application/json', 'text/plain', 'nonsense'])('of type %s', async (type) => {
    for (const [length, body] of lengths) {
      const types = type === undefined ? [] : [`Content-Type: ${type}`]
      const [answer] = await answersTo(head(archive, 'Host: x', 'Connection: close', length, ...types) + body)
      expect(answer?.status, length).toBe(200)
      const needed = head('POST /v1/apps HTTP/1.1', 'Host: x', 'Connection: close', length, ...types)
      expectProblem((await answersTo(needed + body))[0], 400, 'bad_request')
    }
  })

  test.each([undefined, 'text/plain', 'nonsense'])(
    'a body that is not empty is refused with type %s',
    async (type) => {
      const types = type === undefined ? [] : [`Content-Type: ${type}`]
      const chunked = ['Host: x', 'Connection: close', 'Transfer-Encoding: chunked', ...types]
      const [answer] = await answersTo(head(archive, ...chunked) + '2\r\n{}\r\n0\r\n\r\n')
      expectProblem(answer, 415, 'unsupported_media_type')
    },
  )
})

describe('a request that is followed by invalid input on its connection', () => {
  test('is answered, and then the invalid input', async () => {
    for (const garbage of ['garbage\r\n\r\n', '\0\0\0\0', `${'x'.repeat(100_000)}\r\n\r\n`]) {
      for (const thenEnd of [false, true]) {
        const [answer, refusal, ...more] = await answersTo(creation('done') + garbage, { thenEnd })
        expect(answer).toMatchObject({ status: 201 })
        expect(JSON.parse(answer!.body)).toMatchObject({ name: 'done' })
        expect(created).toEqual(['done'])
        // If the caller has closed its half, the connection may be closed after the first answer.
        if (refusal || !thenEnd) expectProblem(refusal, 400, 'bad_request')
        expect(more).toEqual([])
      }
    }
  })

  test('is answered in order if several requests came before', async () => {
    const names = ['one', 'two', 'three']
    const answers = await answersTo(names.map(creation).join('') + 'garbage\r\n\r\n')
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 400])
    const answered = answers.slice(0, 3).map(({ body }) => (JSON.parse(body) as { name: string }).name)
    expect(answered).toEqual(names)
  })

  test('is answered once if the rest of its body is invalid', async () => {
    const headers = ['Host: x', 'Content-Type: application/json', 'Transfer-Encoding: chunked']
    const chunked = head('POST /v1/apps HTTP/1.1', ...headers)
    const broken = await answersTo(`${creation('before')}${chunked}5\r\n{"nam\r\nnonsense`)
    expect(broken.map(({ status }) => status)).toEqual([201, 400])
    expectProblem(broken[1], 400, 'bad_request')
    // The request was refused before its body became invalid.
    const refused = await answersTo(`${chunked.replace('Bearer ', 'Bearer x')}5\r\n{"nam\r\nnonsense`)
    expect(refused.map(({ status }) => status)).toEqual([401])
  })
})

describe.concurrent('an incomplete request', () => {
  test.each([
    ['its body does not arrive', 'Content-Type: application/json\r\nContent-Length: 10\r\n\r\n'],
    ['only a part of its body arrives', 'Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{"'],
    ['its headers do not end', 'X-More: '],
  ])('is refused at its time limit: %s', async (_, rest) => {
    const begun = Date.now()
    const line = `POST /v1/apps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${slow.apiKey}\r\n`
    const [answer] = answersIn(await exchange(slow.port, line + rest))
    expectProblem(answer, 400, 'bad_request')
    expect(JSON.parse(answer!.body)).toMatchObject({ detail: 'the request did not arrive in time' })
    expect(Date.now() - begun).toBeGreaterThanOrEqual(requestMs)
    expect(Date.now() - begun).toBeLessThan(requestMs + 15_000)
  })

  test('is refused at its time limit even if bytes of its body continue to arrive', async () => {
    const socket = createConnection(slow.port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString())).on('error', () => undefined)
    const framing = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n'
    socket.write(
      `POST /v1/apps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${slow.apiKey}\r\n${framing}\r\n`,
    )
    await eventually(() => {
      if (socket.writable) socket.write('1\r\n \r\n')
      expectProblem(answersIn(text)[0], 400, 'bad_request')
    })
  })

  test('has a time limit of 30 seconds, checked to within a second', () => {
    expect(gateway.app.server).toMatchObject({
      requestTimeout: 30_000,
      headersTimeout: 30_000,
      connectionsCheckingInterval: 500,
    })
  })

  test('gets no second answer if it was already answered, and its connection is closed', async () => {
    const line =
      'POST /v1/apps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n'
    expect(answersIn(await exchange(slow.port, line)).map(({ status }) => status)).toEqual([401])
  })
})

test('a connection that is reset at any time does not affect the gateway', async () => {
  for (const bytes of [
    'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
    `${creation('one')}CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n`,
    `${creation('two')}garbage\r\n\r\n`,
    head('GET /v1/apps HTTP/1.1', 'Expect: nonsense'),
    creation('three').slice(0, -3),
  ]) {
    for (let times = 0; times < 20; times++) {
      const socket = createConnection(gateway.port, '127.0.0.1')
      await once(socket, 'connect')
      const sent = Promise.withResolvers<void>()
      socket.write(bytes, () => sent.resolve())
      await sent.promise
      socket.resetAndDestroy()
    }
  }
  expect((await answersTo(creation('after'), { thenEnd: true }))[0]).toMatchObject({ status: 201 })
})

test('bodies of requests that wait behind another one count no longer than their connection', async () => {
  const gate = Promise.withResolvers<void>()
  gateway.answers.products.activate = async ({ fingerprint }) => {
    if (fingerprint === 'waits') await gate.promise
    return { grant: { activationId: 'act_1', licenceId: 'lic_1', token: 't' }, created: true }
  }
  const activation = (fingerprint: string, connection = 'keep-alive') => {
    const fields = {
      licence_key: 'AAAAA-AAAAA-AAAAA-AAAAA-AAAAA',
      fingerprint,
      host: 'h',
      product_version: '1',
    }
    const body = JSON.stringify(fields).padEnd(16_000)
    const headers = [
      `Connection: ${connection}`,
      'Content-Type: application/json',
      'X-Forwarded-For: 203.0.113.77',
    ]
    return ['POST /v1/activations HTTP/1.1', 'Host: x', ...headers, 'Content-Length: 16000', '', body].join(
      '\r\n',
    )
  }
  // One address may hold 1 MiB.
  for (let round = 0; round < 10; round += 1) {
    const called = gateway.calls.length
    const socket = createConnection(gateway.port, '127.0.0.1').on('error', () => undefined)
    socket.write(activation('waits') + activation('behind').repeat(7))
    await eventually(() => expect(gateway.calls.slice(called)).toEqual(Array(8).fill('activate')))
    // By then the requests behind have been answered too.
    for (let later = 0; later < 3; later += 1) await gateway.api.get('/v1/apps')
    socket.resetAndDestroy()
  }
  const [answer] = answersIn(await exchange(gateway.port, activation('last', 'close')))
  gate.resolve()
  expect(answer?.status).toBe(201)
})

test('a connection that continues to send after its refusal is closed', async () => {
  const socket = createConnection(gateway.port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write('garbage\r\n\r\n')
  socket.resume()
  await eventually(() => {
    if (!socket.destroyed) socket.write('more\r\n')
    return socket.closed
  })
})
