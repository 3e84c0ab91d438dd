import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import { beforeEach, expect, test } from 'vitest'
import { bodyHash } from './http/canonical-json.ts'
import { requestExamples } from './openapi/examples.ts'
import { routes } from './routes/table.ts'
import { accountId, appId, gatewayOfFile, pathOf } from '../test/gateway.ts'

/** The keys of the calls that had one, in order. */
const keys: [rpc: string, key: Omit<ServedKey, 'replayed'>][] = []

const reading = /^(get|list|find|name|authenticate)/

const gateway = await gatewayOfFile()
for (const [service, answers] of Object.entries(gateway.answers)) {
  const known: Record<string, unknown> = { ...answers }
  // Every resource exists. Every change records its key and is refused.
  const answer = (rpc: string) => async () => {
    const key = callContext()?.idempotencyKey
    if (key) {
      const { path, accountId, bodyHash } = key
      keys.push([rpc, { path, key: key.key, accountId, bodyHash: Buffer.from(bodyHash) }])
    }
    if (reading.test(rpc)) return {}
    throw new ServiceError('internal', service)
  }
  Object.setPrototypeOf(
    answers,
    new Proxy({}, { get: (_, rpc) => (typeof rpc === 'string' ? answer(rpc) : undefined) }),
  )
  Object.assign(answers, known)
}
beforeEach(() => void (keys.length = 0))

const one = (prefix: string) => `${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`

const posts = routes.filter(({ method, audience }) => method === 'POST' && audience === 'vendor')

test.each(
  posts.filter((route) => !route.needsIdempotencyKey).map((route) => [route.operationId, route] as const),
)('%s passes its key to the only RPC that changes something', async (operationId, route) => {
  const body = requestExamples[operationId] ?? {}
  const headers = { 'idempotency-key': 'a key' }
  const answer = await gateway.api.post(pathOf(route.path), { body, headers })
  expect(answer.status, JSON.stringify(answer.body)).toBe(500)
  const sent = { path: pathOf(route.path), key: 'a key', accountId, bodyHash: bodyHash(body) }
  expect(keys).toEqual([[expect.not.stringMatching(reading), sent]])

  await gateway.api.post(pathOf(route.path), { body })
  expect(keys).toHaveLength(1)
})

test('issuing a licence, and requests without an API key, pass no key in the metadata', async () => {
  const headers = { 'idempotency-key': 'a key' }
  const body = { external_ref: 'x', plan_id: one('pln') }
  await gateway.api.post(`/v1/apps/${appId}/licences`, { body, headers })
  await gateway.api.post(`/v1/apps/${appId}/migrate`, { body: { legacy_key: 'x' }, headers })
  expect(keys).toEqual([])
})

const suspend = `/v1/licences/${one('lic')}/suspend`

test('the encoding of a path does not matter, nor white space, the order of members or an empty body', async () => {
  const headers = { 'idempotency-key': 'a key' }
  await gateway.api.post(suspend, { headers })
  await gateway.api.post(suspend, { headers, body: {} })
  await gateway.api.post(suspend.replace('lic_', 'lic%5f'), { headers, body: ' { } ' })
  expect(keys).toEqual([keys[0], keys[0], keys[0]])
  keys.length = 0
  const create = (body: string) => gateway.api.post(`/v1/apps/${appId}/plans`, { headers, body })
  await create('{"name":"x","code":"y"}')
  await create(' { "code": "y", "name": "x" }')
  expect(keys).toEqual([keys[0], keys[0]])
})

/** The form of a text in a header: one character for each byte of UTF-8. */
const inUtf8 = (text: string) => Buffer.from(text).toString('latin1')

test('a key that is empty or longer than 255 characters is refused, after invalid JSON and before invalid fields', async () => {
  const create = (key: string, body: string) =>
    gateway.api.post(`/v1/apps/${appId}/plans`, { headers: { 'idempotency-key': key }, body })
  for (const key of ['', 'x'.repeat(256), 'é'.repeat(256), inUtf8('😀'.repeat(256))]) {
    const answer = await create(key, '{"no_such_field":1}')
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({
      code: 'bad_request',
      detail: expect.stringContaining('Idempotency-Key') as string,
    })
    expect((await create(key, '{')).body).toMatchObject({ detail: expect.stringContaining('JSON') as string })
  }
  const accepted = ['x', 'x'.repeat(255), 'é'.repeat(255), inUtf8('é'), inUtf8('😀'.repeat(255))]
  for (const key of accepted) {
    expect((await create(key, '{"name":"x","code":"y"}')).status).toBe(500)
  }
  expect(keys.map(([, { key }]) => key)).toEqual([...accepted.slice(0, -1), '😀'.repeat(255)])
  const get = await gateway.api.get(`/v1/apps/${appId}`, { headers: { 'idempotency-key': '' } })
  expect(get.status).not.toBe(400)
})

test('a repeated answer is marked as such, and a secret that is shown once is null', async () => {
  const at = { seconds: 1_793_000_000n, nanos: 0 }
  let isRepeated = false
  const answering =
    <T extends object>(first: T, secret: string) =>
    async () => {
      callContext()!.idempotencyKey!.replayed = isRepeated
      return { ...first, [secret]: isRepeated ? '' : 'a secret' }
    }
  const apiKey = { id: one('key'), scopes: ['read'], createdAt: at }
  const endpoint = { id: one('whe'), status: 'enabled', signature: 'default', createdAt: at, health: {} }
  gateway.answers.catalog.createApiKey = answering({ apiKey }, 'key')
  gateway.answers.notifier.createEndpoint = answering({ endpoint }, 'secret')
  gateway.answers.notifier.rotateSecret = answering({ id: one('whe') }, 'secret')
  const headers = { 'idempotency-key': 'a key' }
  const endpoints = `/v1/apps/${appId}/webhook-endpoints`
  for (const [path, operationId, secret, status] of [
    ['/v1/api-keys', 'createApiKey', 'key', 201],
    [endpoints, 'createWebhookEndpoint', 'secret', 201],
    [`${endpoints}/${one('whe')}/rotate-secret`, 'rotateWebhookSecret', 'secret', 200],
  ] as const) {
    const post = () => gateway.api.post(path, { body: requestExamples[operationId], headers })
    isRepeated = false
    const first = await post()
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([status, null])
    expect(first.body[secret]).toBe('a secret')
    isRepeated = true
    const repeated = await post()
    expect([repeated.status, repeated.headers.get('idempotent-replayed')]).toEqual([status, 'true'])
    expect(repeated.body).toEqual({ ...first.body, [secret]: null })
  }
})
