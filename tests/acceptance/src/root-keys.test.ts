import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { compactVerify, decodeProtectedHeader, importJWK } from 'jose'
import type { JWK } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectProblem, givenVendor } from './vendor.ts'

let stack: Stack
beforeAll(async () => {
  const environment = { PRODUCT_RATE_PER_MINUTE: '100000', RATE_LIMIT_PER_MINUTE: '100000' }
  stack = await startStack({ environment, replicas: { licensing: 2, gateway: 2 } })
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Application {
  id: string
  name: string
  account_id: string
  root_key: string
  created_at: string
}

interface KeySet {
  keys: JWK[]
  signed: string[]
}

const rootKeyPattern = /^lrk_[A-Za-z0-9_-]{43}$/

async function keySet(appId: string): Promise<KeySet> {
  const answer = await stack.api.get<KeySet>(`/v1/apps/${appId}/jwks.json`, { key: null })
  expect(answer.status).toBe(200)
  return answer.body
}

/** Verifies a JWS with the text of a root key, and returns its content. */
async function vouched(jws: string, rootKey: string) {
  const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: rootKey.slice(4) }, 'EdDSA')
  const { payload, protectedHeader } = await compactVerify(jws, key)
  expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: rootKey })
  return JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown> & { iat: number }
}

test('each application has its own root key, shown on creation, in the application and in the list', async () => {
  const made = await stack.api.post<Application>('/v1/apps', { body: { name: 'Studio' } })
  expect(made.status).toBe(201)
  expect(Object.keys(made.body).toSorted()).toEqual([
    'account_id',
    'created_at',
    'expiring_notice_days',
    'id',
    'name',
    'root_key',
  ])
  expect(made.body.root_key).toMatch(rootKeyPattern)
  expect((await stack.api.get(`/v1/apps/${made.body.id}`)).body).toEqual(made.body)
  const rows = await allRows<Application>(stack.api, '/v1/apps')
  expect(rows.find(({ id }) => id === made.body.id)).toEqual(made.body)
  // The demo application was not created by a request.
  const demo = rows.find(({ id }) => id === stack.appId)!
  expect(demo.root_key).toMatch(rootKeyPattern)
  expect((await stack.api.get(`/v1/apps/${stack.appId}`)).body).toEqual(demo)
  expect(new Set(rows.map(({ root_key }) => root_key)).size).toBe(rows.length)
})

test('jwks.json has the key set signed by the root key, valid for 30 days and the same from every replica', async () => {
  const { appId } = await givenVendor(stack)
  const { body } = await stack.api.get<Application>(`/v1/apps/${appId}`)
  const answers = await Promise.all(Array.from({ length: 40 }, () => keySet(appId)))
  expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1)
  const { keys, signed } = answers[0]!
  expect(signed).toHaveLength(1)
  const claims = await vouched(signed[0]!, body.root_key)
  expect(claims).toEqual({ app_id: appId, keys, iat: claims.iat, exp: claims.iat + 30 * 86_400 })
})

// Decisions 10: on all replicas within 60 seconds.
const effective = { timeoutMs: 60_000 }

test('the operator rotates a root key, and retires the former key 180 days later or by force', async () => {
  const { appId } = await givenVendor(stack)
  const first = (await stack.api.get<Application>(`/v1/apps/${appId}`)).body.root_key
  const rotated = await runAdmin(stack, 'rotate-root-key', '--app', appId)
  expect(rotated.code).toBe(0)
  const { root_key: next } = JSON.parse(rotated.stdout) as { root_key: string }
  expect(next).toMatch(rootKeyPattern)
  expect(next).not.toBe(first)
  await eventually(async () => {
    const { body } = await stack.api.get<Application>(`/v1/apps/${appId}`)
    expect(body.root_key).toBe(next)
  }, effective)
  await eventually(async () => {
    const { keys, signed } = await keySet(appId)
    expect(signed.map((jws) => decodeProtectedHeader(jws).kid)).toEqual([next, first])
    for (const jws of signed) {
      const { kid } = decodeProtectedHeader(jws)
      expect(await vouched(jws, kid!)).toMatchObject({ app_id: appId, keys })
    }
  }, effective)

  const early = await runAdmin(stack, 'rotate-root-key', '--app', appId, '--retire')
  expect(early).toMatchObject({ code: 1, stdout: '' })
  expect(early.stderr).toContain('--force')
  const forced = await runAdmin(stack, 'rotate-root-key', '--app', appId, '--retire', '--force')
  expect(JSON.parse(forced.stdout)).toEqual({
    app_id: appId,
    root_key: next,
    current: [next],
    retired: [first],
  })
  await eventually(async () => {
    const { signed } = await keySet(appId)
    expect(signed.map((jws) => decodeProtectedHeader(jws).kid)).toEqual([next])
  }, effective)
  const unknown = await runAdmin(stack, 'rotate-root-key', '--app', appId.replace(/.$/, '0'))
  expect(unknown.code).toBe(1)
})

test('while licensing is unavailable no application is created, and afterwards the request can be repeated', async () => {
  const name = 'Made once'
  const named = async () =>
    (await allRows<Application>(stack.api, '/v1/apps')).filter((row) => row.name === name)
  await Promise.all(stack.processes.licensing.map((process) => process.stop()))
  try {
    const refused = await stack.api.post('/v1/apps', { body: { name } })
    expectProblem(refused, 503, 'unavailable')
    expect(refused.headers.get('retry-after')).not.toBeNull()
  } finally {
    await Promise.all(stack.processes.licensing.map((process) => process.start()))
  }
  expect(await named()).toEqual([])
  expect((await stack.api.post('/v1/apps', { body: { name } })).status).toBe(201)
  expect(await named()).toHaveLength(1)
})
