import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { createConnection } from 'node:net'
import type { FuzzRequest } from './requests.ts'
import type { Dice } from './dice.ts'

export interface FuzzAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: string
  ms: number
}

const agent = new Agent({ keepAlive: true })
const maxWaitMs = 30_000

/** Sends a request unchanged: the path is not normalized, and no headers are added. */
export function send(gatewayUrl: string, request: FuzzRequest): Promise<FuzzAnswer> {
  const { method, target, headers, body, chunked } = request
  const { hostname, port } = new URL(gatewayUrl)
  const length =
    body === undefined ? {} : chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const call = httpRequest(
      { agent, hostname, port, method, path: target, headers: { ...headers, ...length } },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString('utf8'),
            ms: performance.now() - started,
          }),
        )
      },
    )
    call.setTimeout(maxWaitMs, () => call.destroy(new Error(`no answer within ${maxWaitMs} ms`)))
    call.on('error', reject)
    if (body && chunked)
      for (let at = 0; at < body.length; at += 50_000) call.write(body.subarray(at, at + 50_000))
    else if (body) call.write(body)
    call.end()
  })
}

const silenceMs = 30_000
const maxSaidMs = 500

/** Almost valid HTTP. The gateway must answer any of it. */
export function nearlyHttp(dice: Dice, apiKey: string): string {
  const host = dice.one(['Host: x', 'Host: x', 'Host: x', '', 'Host:', 'Host: a\r\nHost: b', 'host: \u0001'])
  const key = `Authorization: Bearer ${dice.one([apiKey, 'x', ''])}`
  const line = dice.one(lines)
  const odd = dice.chance(40) ? dice.one(oddHeaders) : ''
  // After an Upgrade, Node does not report errors in the body, and answers only after its timeout of 30 s.
  const [headers, body] = odd.startsWith('Upgrade') ? bodies[0] : dice.one(bodies)
  const head = [line, host, key, odd, headers].filter((part) => part !== '').join('\r\n')
  const request = `${head}\r\n\r\n${body}`
  return (
    request +
    (dice.chance(40)
      ? dice.one(['garbage\r\n\r\n', '\0\0', connect, request, `${'x'.repeat(70_000)}\r\n\r\n`])
      : '')
  )
}

const connect = 'CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n'

const lines = [
  'GET /v1/account HTTP/1.1',
  'GET /v1/account HTTP/1.1',
  'POST /v1/apps HTTP/1.1',
  'POST /v1/activations HTTP/1.1',
  'POST /v1/processors/stripe/events HTTP/1.1',
  'GET /v1/account HTTP/1.0',
  'GET /v1/account HTTP/2.0',
  'GET /v1/account',
  'GET  /v1/account HTTP/1.1',
  'get /v1/account HTTP/1.1',
  'GET http://x/v1/account HTTP/1.1',
  'GET //v1/account HTTP/1.1',
  'GET /v1/account?a=\u00ff HTTP/1.1',
  'GET /v1/../v1/account HTTP/1.1',
  'OPTIONS * HTTP/1.1',
  'GET * HTTP/1.1',
  'CONNECT x:443 HTTP/1.1',
  'CONNECT /v1/account HTTP/1.1',
  'TRACE / HTTP/1.1',
  'NONSENSE /v1/account HTTP/1.1',
  'PRI * HTTP/2.0',
  `GET /${'a'.repeat(20_000)} HTTP/1.1`,
  `GET /v1/apps/${'%'.repeat(50)} HTTP/1.1`,
  '\u0016\u0003\u0001\u0002\u0000\u0001',
  '',
]

const bodies = [
  ['', ''],
  ['Content-Type: application/json\r\nContent-Length: 12', '{"name":"x"} '.slice(0, 12)],
  ['Content-Length: 0', ''],
  ['Content-Length: -1', '{}'],
  ['Content-Length: 2\r\nContent-Length: 3', '{}'],
  ['Content-Length: 0x2', '{}'],
  ['Content-Type: application/json\r\nTransfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'],
  ['Transfer-Encoding: chunked', '0\r\n\r\n'],
  ['Transfer-Encoding: chunked', 'zz\r\n{}\r\n'],
  ['Transfer-Encoding: chunked', 'ffffffffffffffffff\r\n{}\r\n'],
  ['Transfer-Encoding: chunked\r\nContent-Length: 2', '0\r\n\r\n'],
  ['Transfer-Encoding: gzip, chunked', '0\r\n\r\n'],
  ['Transfer-Encoding: nonsense', '{}'],
] as const

const oddHeaders = [
  'Expect: nonsense',
  'Expect: 100-continue',
  'Upgrade: websocket\r\nConnection: Upgrade',
  'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
  'Connection: keep-alive, close, nonsense',
  'X-Request-Id: from the wire',
  'X-Odd: a\u0000b',
  'X-Odd : a',
  ' X-Folded: a',
  ': a',
  'X-Odd',
  `X-Long: ${'a'.repeat(30_000)}`,
  Array.from({ length: 3_000 }, (_, at) => `X-${at}: a`).join('\r\n'),
  'Content-Type: \u00ff',
]

/** Sends the bytes, closes the sending side a moment later, and returns the response. */
export function say(gatewayUrl: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(gatewayUrl)
  return new Promise((resolve) => {
    let text = ''
    const socket = createConnection({ host: hostname, port: Number(port) }, () =>
      socket.write(bytes, 'latin1'),
    )
    const done = () => {
      clearTimeout(quiet)
      clearTimeout(limit)
      socket.destroy()
      resolve(text)
    }
    const quiet = setTimeout(() => socket.end(), maxSaidMs)
    const limit = setTimeout(done, silenceMs)
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    socket.on('close', done)
    socket.on('error', done)
  })
}

/** The problems of a response. */
export function problemsOfSaying(text: string): string[] {
  const heads = [...text.matchAll(/HTTP\/1\.1 (\d{3})[^\r]*\r\n((?:[^\r]+\r\n)+)\r\n/g)]
  if (heads.length === 0) return ['has no answer']
  return heads.flatMap(([, status, headers = '']) => {
    const code = Number(status)
    if (code < 200) return []
    return [
      ...(code >= 500 ? [`is a ${code}`] : []),
      ...(/^x-request-id: \S+\r$/im.test(headers) ? [] : [`has a ${code} without X-Request-Id`]),
      ...(code < 400 || /^content-type: application\/problem\+json/im.test(headers)
        ? []
        : [`has a ${code} that is no problem document`]),
    ]
  })
}
