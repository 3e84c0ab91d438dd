import { callContext } from '@licensing/grpc/call-context'
import type { ServedKey } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { bodyHash } from './http/canonical-json.ts'
import { routes } from './routes/table.ts'
import { accountId, appId, pathOf, startGateway } from './testing/gateway.ts'
import type { TestGateway } from './testing/gateway.ts'

let gateway: TestGateway
/** The keys of the calls that had one, in order. */
const keys: [rpc: string, key: Omit<ServedKey, 'replayed'>][] = []

const reading = /^(get|list|find|authenticate)/

beforeAll(async () => {
  gateway = await startGateway()
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
})
afterAll(() => gateway[Symbol.asyncDispose]())
beforeEach(() => void (keys.length = 0))

const one = (prefix: string) => `${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`

/** A valid body for each POST that needs one. */
const bodies: Record<string, object> = {
  createEntitlementDefinition: { key: 'sso', kind: 'feature' },
  createPlan: { name: 'Pro', code: 'pro' },
  importLicences: { items: [{ legacy_key: 'x', external_ref: 'x', plan_id: one('pln') }] },
  createCheckoutSession: {
    plan_id: one('pln'),
    external_ref: 'x',
    success_url: 'https://example.com/',
    cancel_url: 'https://example.com/',
  },
  recordSaleEvent: {
    sale_id: 'x',
    external_ref: 'x',
    plan_id: one('pln'),
    amount: 1,
    currency: 'eur',
    occurred_at: '2026-11-01T00:00:00Z',
  },
  createWebhookEndpoint: { url: 'https://example.com/', subscribed_events: '*' },
  recoverWebhookEndpoint: { since: '2026-11-01T00:00:00Z' },
  activateOffline: {
    licence_key: 'AAAAA-AAAAA-AAAAA-AAAAA-AAAAA',
    fingerprint: 'x',
    host: 'localhost',
    product_version: '1',
    days: 1,
  },
  createApplication: { name: 'x' },
  createApiKey: { name: 'x', scopes: ['read'] },
}

const posts = routes.filter(({ method, audience }) => method === 'POST' && audience === 'vendor')

test.each(
  posts.filter((route) => !route.needsIdempotencyKey).map((route) => [route.operationId, route] as const),
)('%s passes its key to the only RPC that changes something', async (operationId, route) => {
  const body = bodies[operationId] ?? {}
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

test('an empty body is the same as an empty object, and the encoding of a path does not matter', async () => {
  const headers = { 'idempotency-key': 'a key' }
  await gateway.api.post(suspend, { headers })
  await gateway.api.post(suspend, { headers, body: {} })
  await gateway.api.post(suspend.replace('lic_', 'lic%5f'), { headers, body: ' { } ' })
  expect(keys).toEqual([keys[0], keys[0], keys[0]])
})

test('the order of members and white space do not change the hash of a body, but values do', async () => {
  const headers = { 'idempotency-key': 'a key' }
  const create = (body: string) => gateway.api.post(`/v1/apps/${appId}/plans`, { headers, body })
  await create('{"name":"x","code":"y"}')
  await create(' { "code": "y", "name": "x" }')
  await create('{"name":"y","code":"x"}')
  const [first, second, third] = keys.map(([, { bodyHash }]) => Buffer.from(bodyHash).toString('hex'))
  expect(second).toBe(first)
  expect(third).not.toBe(first)
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
  const answers: Record<string, unknown>[] = []
  let isRepeated = false
  const answering =
    <T extends object>(first: T, secret: string) =>
    async () => {
      const key = callContext()!.idempotencyKey!
      key.replayed = isRepeated
      return { ...first, [secret]: isRepeated ? '' : 'a secret' }
    }
  const endpoint = { id: one('whe'), status: 'enabled', createdAt: at }
  gateway.answers.catalog.createApiKey = answering(
    { apiKey: { id: one('key'), scopes: ['read'], createdAt: at } },
    'key',
  )
  gateway.answers.notifier.createEndpoint = answering({ endpoint }, 'secret')
  gateway.answers.notifier.rotateSecret = answering({ id: one('whe') }, 'secret')
  const headers = { 'idempotency-key': 'a key' }
  const endpoints = `/v1/apps/${appId}/webhook-endpoints`
  for (isRepeated of [false, true]) {
    for (const [path, body, secret] of [
      ['/v1/api-keys', bodies['createApiKey'], 'key'],
      [endpoints, bodies['createWebhookEndpoint'], 'secret'],
      [`${endpoints}/${one('whe')}/rotate-secret`, undefined, 'secret'],
    ] as const) {
      const answer = await gateway.api.post(path, { body, headers })
      expect(answer.status).toBe(path.endsWith('rotate-secret') ? 200 : 201)
      expect(answer.headers.get('idempotent-replayed')).toBe(isRepeated ? 'true' : null)
      expect(answer.body[secret]).toBe(isRepeated ? null : 'a secret')
      answers.push({ ...answer.body, [secret]: '' })
    }
  }
  expect(answers.slice(3)).toEqual(answers.slice(0, 3))
})
