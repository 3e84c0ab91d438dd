import { expect, test } from 'vitest'
import { exchange } from '../../test/exchange.ts'
import { appId, applicationDefaults, gatewayOfFile } from '../../test/gateway.ts'

const gateway = await gatewayOfFile()
const authorization = `Bearer ${gateway.apiKey}`
gateway.answers.catalog.createApplication = async ({ name }) => ({ ...applicationDefaults, id: appId, name })
gateway.answers.catalog.listApplications = async () => ({ applications: [], hasMore: false })
gateway.answers.licensing.importLicences = async ({ items }) => ({ items: [], created: items.length })

test('a known path answers other methods with 405 and a list of its methods', async () => {
  for (const method of ['PUT', 'DELETE', 'PATCH', 'PROPFIND']) {
    const response = await fetch(`${gateway.url}/v1/apps`, { method })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')?.split(', ').toSorted()).toEqual(['GET', 'HEAD', 'OPTIONS', 'POST'])
    expect(await response.json()).toMatchObject({ code: 'method_not_allowed' })
  }
})

test('a path is recognized in any percent-encoding', async () => {
  const absolute = `http://127.0.0.1:${gateway.port}/v1/apps`
  for (const path of ['/v1/%61pps', absolute, '/v1/apps#x', '/v1/apps?x=/']) {
    const request = `PUT ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`
    expect(await exchange(gateway.port, request), path).toMatch(/^HTTP\/1\.1 405 /)
  }
})

test('HEAD is GET without the body, and OPTIONS returns the methods of a known path', async () => {
  const status = async (method: string, path: string) =>
    (await fetch(`${gateway.url}${path}`, { method })).status
  const head = await fetch(`${gateway.url}/v1/apps`, { method: 'HEAD', headers: { authorization } })
  expect([head.status, await head.text()]).toEqual([200, ''])
  expect(head.headers.get('content-type')).toMatch(/json/)
  expect(await status('HEAD', '/v1/apps')).toBe(401)
  expect(await status('HEAD', '/v1/nothing')).toBe(404)
  const options = await fetch(`${gateway.url}/v1/apps`, { method: 'OPTIONS' })
  expect([options.status, options.headers.get('allow')]).toEqual([204, expect.stringContaining('POST')])
  expect(await status('OPTIONS', '/v1/nothing')).toBe(404)
})

test('the request id is the caller’s if it has 1 to 128 visible characters', async () => {
  const idFor = async (sent: string) =>
    (await gateway.api.get('/v1/apps', { headers: { 'x-request-id': sent } })).headers.get('x-request-id')
  for (const good of ['a', '!~', 'x'.repeat(128)]) expect(await idFor(good)).toBe(good)
  for (const bad of ['', 'a b', 'x'.repeat(129), 'é']) expect(await idFor(bad)).toMatch(/^[0-9a-f-]{36}$/)
})

test('only application/json is accepted as a body, with any parameters', async () => {
  const send = async (type: string | undefined, body: string | Buffer = '{"name":"x"}') => {
    const headers = { authorization, ...(type !== undefined && { 'content-type': type }) }
    return (await fetch(`${gateway.url}/v1/apps`, { method: 'POST', headers, body })).status
  }
  for (const type of [
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
  ]) {
    expect(await send(type), type).toBe(201)
  }
  for (const type of ['text/plain', 'application/jsonp', 'application/merge-patch+json', 'json', undefined]) {
    expect(await send(type), type).toBe(415)
  }
  expect(await send('application/json', Buffer.from('{"name":"\xff"}', 'latin1'))).toBe(400)
  expect(await send('text/plain', '')).toBe(400)
})

const padded = (value: unknown, bytes: number) => {
  const text = JSON.stringify(value)
  return text + ' '.repeat(bytes - text.length)
}
const signed = () => ({ 'stripe-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0a'.repeat(32)}` })
const oneItem = { items: [{ legacy_key: 'k', external_ref: 'c', plan_id: 'p' }] }
const kibibyte = 1024

test.each([
  ['a call of a vendor', '/v1/apps', 1024, { name: 'x' }, 201],
  ['an import', `/v1/apps/${appId}/licences/import`, 2048, oneItem, 200],
  ['a call of a product', '/v1/activations', 16, { licence_key: 'k' }, 422],
  ['a call of a product with a token', '/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab/refresh', 16, {}, 422],
  ['a trial', `/v1/apps/${appId}/trials`, 16, {}, 422],
  ['an event of the processor', '/v1/processors/stripe/events', 256, { id: 'evt_1' }, 200],
  ['a sign-in', '/portal/session', 16, {}, 422],
])(
  'the body of %s is limited, whether its length is declared or not, and the client always gets the answer',
  async (_what, path, maxKibibytes, value, status) => {
    gateway.answers.billing.receiveProcessorEvent = async () => ({})
    gateway.answers.products.checkActivation = async () => ({})
    const max = maxKibibytes * kibibyte
    const send = async (bytes: number, isChunked: boolean) => {
      const body = padded(value, bytes)
      const response = await fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: {
          ...signed(),
          'content-type': 'application/json',
          authorization: `Bearer ${gateway.apiKey}`,
        },
        body: isChunked ? new Blob([body]).stream() : body,
        ...(isChunked && { duplex: 'half' }),
      })
      return { status: response.status, body: (await response.json()) as object }
    }
    for (const isChunked of [false, true]) {
      expect((await send(max, isChunked)).status).toBe(status)
      for (const bytes of [max + 1, 6 * max]) {
        const refused = await send(bytes, isChunked)
        expect(refused).toMatchObject({ status: 413, body: { code: 'payload_too_large' } })
      }
    }
  },
)

test('limit and cursor are checked, and the next page begins after the last row', async () => {
  const list = (query: string) =>
    gateway.api.get<{ data: unknown[]; next_cursor: string | null }>(`/v1/apps?${query}`)
  for (const limit of ['0', '201', '-1', '1.0', '1e1', ' 1', '+1', '', 'x', '1&limit=2']) {
    expect((await list(`limit=${limit}`)).status, limit).toBe(422)
  }
  const cursorOf = (text: string) => Buffer.from(text).toString('base64url')
  for (const cursor of ['x', '', 'MQ', cursorOf('1lic_01k9zj3v8qe5ktw2m4x6r7n8ab')]) {
    const answer = await list(`cursor=${cursor}&limit=0`)
    expect(answer.status, cursor).toBe(400)
    expect(answer.body).toMatchObject({ code: 'bad_request' })
  }
  const asked: { limit: number; beforeId: string }[] = []
  gateway.answers.catalog.listApplications = async ({ limit, beforeId }) => {
    asked.push({ limit, beforeId })
    return { applications: [{ ...applicationDefaults, id: appId, name: 'x' }], hasMore: beforeId === '' }
  }
  const first = await list('')
  expect(first.body.next_cursor).toEqual(expect.any(String))
  expect((await list(`limit=200&cursor=${first.body.next_cursor}`)).body.next_cursor).toBeNull()
  expect(asked).toEqual([
    { limit: 50, beforeId: '' },
    { limit: 200, beforeId: appId },
  ])
})

test('after a page that ended early, with or without rows, the next page continues where the search ended', async () => {
  const [first, last] = ['lic_01k9zj3v8qe5ktw2m4x6r7n8ab', 'lic_01k9zj3v8qe5ktw2m4x6r7n8aa']
  const asked: string[] = []
  gateway.answers.licensing.listLicences = async ({ beforeId }) => {
    asked.push(beforeId)
    if (beforeId === last) return { licences: [], hasMore: false }
    return { licences: [], hasMore: true, lookedUntil: beforeId === '' ? first : last }
  }
  const pages: unknown[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const path: string = `/v1/apps/${appId}/licences?status=retired&domain=a.example${cursor && `&cursor=${cursor}`}`
    const { body } = await gateway.api.get<{ data: unknown[]; next_cursor: string | null }>(path)
    pages.push(body.data)
    cursor = body.next_cursor
  }
  expect(asked).toEqual(['', first, last])
  expect(pages).toEqual([[], [], []])
})
