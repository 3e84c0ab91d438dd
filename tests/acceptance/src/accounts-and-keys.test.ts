import { apiClient } from '@licensing/test-support/api-client'
import { hostName } from '@licensing/test-support/docker'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Page } from './vendor.ts'

let stack: Stack

beforeAll(async () => {
  stack = await startStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

interface ApiKey {
  id: string
  name: string
  scopes: string[]
  app_id: string | null
  key?: string
  last_four: string
  last_used_at: string | null
  revoked_at: string | null
}

const newKey = async (body: Record<string, unknown>) => {
  const made = await stack.api.post<ApiKey & { key: string }>('/v1/api-keys', { body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body
}

test('the account shows its name and its alert address, and both can be changed', async () => {
  const { api, accountId } = stack
  const before = await api.get<Record<string, unknown>>('/v1/account')
  expect(before.body).toMatchObject({
    id: accountId,
    alert_email: 'alerts@localhost',
    alert_email_confirmed: true,
  })
  expect((await api.patch('/v1/account', { body: {} })).body).toEqual(before.body)
  expect(
    (await api.patch('/v1/account', { body: { name: 'Acme', alert_email: 'ops@acme.example' } })).body,
  ).toMatchObject({
    id: accountId,
    name: 'Acme',
    alert_email: 'ops@acme.example',
    alert_email_confirmed: false,
  })
  expect((await api.patch('/v1/account', { body: { alert_email: null } })).body).toMatchObject({
    name: 'Acme',
    alert_email: null,
    alert_email_confirmed: false,
  })
  expectInvalid(await api.patch('/v1/account', { body: { alert_email: 'nobody' } }), '/alert_email')
  expectInvalid(await api.patch('/v1/account', { body: { name: '' } }), '/name')
  expectInvalid(await api.patch('/v1/account', { body: { id: accountId } }), '/id')
})

test('an application is created and listed', async () => {
  const { api, accountId } = stack
  const made = await api.post<{ id: string }>('/v1/apps', { body: { name: 'Painter' } })
  expect(made.status).toBe(201)
  expect(made.body).toMatchObject({
    id: expect.stringMatching(/^app_[0-9a-z]{26}$/),
    name: 'Painter',
    account_id: accountId,
    created_at: expect.stringMatching(isoTime),
  })
  const page = await api.get<Page<{ id: string }>>('/v1/apps?limit=1')
  expect(page.body.data.map(({ id }) => id)).toEqual([made.body.id])
  expect(page.body.next_cursor).toEqual(expect.any(String))
  expect((await allRows<{ id: string }>(api, '/v1/apps', 1)).length).toBeGreaterThan(1)
  expectInvalid(await api.post('/v1/apps', { body: {} }), '/name')
  expectInvalid(await api.post('/v1/apps', { body: { name: 'x'.repeat(201) } }), '/name')
  expect((await api.post('/v1/apps', { body: { name: '🦊'.repeat(200) } })).status).toBe(201)
})

test('a key is shown once, works at once with only its scopes, and the list does not show its text', async () => {
  const made = await newKey({ name: 'shop', scopes: ['read'] })
  expect(made).toMatchObject({ name: 'shop', scopes: ['read'], app_id: null })
  expect(made.id).toMatch(/^key_[0-9a-z]{26}$/)
  expect(made.key).toMatch(/^lsk_[0-9A-Za-z]{6}_[0-9A-Za-z]{43,}$/)
  const { api } = stack
  expect((await api.get('/v1/events', { key: made.key })).status).toBe(200)
  expectProblem(await api.get('/v1/api-keys', { key: made.key }), 403, 'insufficient_scope')
  const listed = (await allRows<ApiKey>(api, '/v1/api-keys')).find(({ id }) => id === made.id)!
  expect(listed).toMatchObject({
    name: 'shop',
    scopes: ['read'],
    last_four: made.key.slice(-4),
    revoked_at: null,
  })
  expect(listed).not.toHaveProperty('key')
  await eventually(async () => {
    const again = (await allRows<ApiKey>(api, '/v1/api-keys')).find(({ id }) => id === made.id)!
    expect(again.last_used_at).toMatch(isoTime)
  })
})

test('the fields of a new key are validated', async () => {
  const { api } = stack
  const refuse = async (body: unknown, ...pointers: string[]) =>
    expectInvalid(await api.post('/v1/api-keys', { body }), ...pointers)
  await refuse({ scopes: ['read'] }, '/name')
  await refuse({ name: 'x' }, '/scopes')
  await refuse({ name: 'x', scopes: [] }, '/scopes')
  await refuse({ name: 'x', scopes: ['root'] }, '/scopes/0')
  await refuse({ name: 'x', scopes: ['read'], app_id: 'app_01k9zj3v8qe5ktw2m4x6r7n8ab' }, '/app_id')
  await refuse({ name: 'x', scopes: ['read'], app_id: 'nonsense' }, '/app_id')
  await refuse({ name: 'x', scopes: ['read'], key: 'lsk_mine' }, '/key')
})

test('a revoked key is refused within 2 seconds, can be revoked again, and stays listed', async () => {
  const { api } = stack
  const made = await newKey({ name: 'leaked', scopes: ['read'] })
  expect((await api.get('/v1/events', { key: made.key })).status).toBe(200)
  expect((await api.delete(`/v1/api-keys/${made.id}`)).status).toBe(204)
  await eventually(
    async () => {
      expectProblem(await api.get('/v1/events', { key: made.key }), 401, 'unauthenticated')
    },
    { timeoutMs: 2_000 },
  )
  expect((await api.delete(`/v1/api-keys/${made.id}`)).status).toBe(204)
  const listed = (await allRows<ApiKey>(api, '/v1/api-keys')).find(({ id }) => id === made.id)
  expect(listed?.revoked_at).toMatch(isoTime)
  expectProblem(await api.delete('/v1/api-keys/key_01k9zj3v8qe5ktw2m4x6r7n8ab'), 404, 'not_found')
})

test('a key bound to one application cannot access another', async () => {
  const { api } = stack
  const [mine, other] = [await givenVendor(stack), await givenVendor(stack)]
  const { key } = await newKey({
    name: 'bound',
    scopes: ['admin', 'read', 'revoke', 'issue'],
    app_id: mine.appId,
  })
  const licence = await other.issue((await other.plan()).id)
  expect((await api.get(`${mine.app}/plans`, { key })).status).toBe(200)
  for (const answer of [
    await api.get(`${other.app}/plans`, { key }),
    await api.get(`/v1/licences/${licence.id}`, { key }),
    await api.get(`/v1/licences/${licence.id}/history`, { key }),
    await api.post(`/v1/licences/${licence.id}/suspend`, { key }),
    await api.get(`${other.app}/webhook-deliveries`, { key }),
  ]) {
    expectProblem(answer, 404, 'not_found')
  }
  expectProblem(await api.post('/v1/apps', { key, body: { name: 'x' } }), 403, 'insufficient_scope')
  const { id } = await newKey({ name: 'another', scopes: ['read'], app_id: mine.appId })
  for (const answer of [
    await api.get('/v1/account', { key }),
    await api.patch('/v1/account', { key, body: { name: 'Mine' } }),
    await api.get('/v1/spend-cap', { key }),
    await api.put('/v1/spend-cap', { key, body: { cap_minor: null, currency: 'eur' } }),
    await api.get('/v1/processor', { key }),
    await api.put('/v1/processor', { key, body: { processor: 'stripe', connected_account: 'acct_1' } }),
    await api.get('/v1/fees', { key }),
    await api.get('/v1/api-keys', { key }),
    await api.delete(`/v1/api-keys/${id}`, { key }),
  ]) {
    expectProblem(answer, 403, 'insufficient_scope')
  }
  const applications = await api.get<{ data: { id: string }[] }>('/v1/apps', { key })
  expect(applications.body.data.map(({ id }) => id)).toEqual([mine.appId])
  expectProblem(
    await api.post('/v1/api-keys', { key, body: { name: 'x', scopes: ['read'] } }),
    403,
    'insufficient_scope',
  )
})

test('any key reads itself: its name, scopes, application and account', async () => {
  const { api, accountId } = stack
  const { appId } = await givenVendor(stack)
  for (const [scopes, app_id] of [
    [['admin'], null],
    [['read'], appId],
    [['revoke', 'issue'], null],
  ] as const) {
    const made = await newKey({ name: 'who am I', scopes, app_id })
    const self = await api.get('/v1/api-keys/self', { key: made.key })
    expect(self.status).toBe(200)
    expect(self.body).toEqual({
      id: made.id,
      name: 'who am I',
      scopes: expect.arrayContaining([...scopes]),
      app_id,
      account_id: accountId,
    })
  }
  expectProblem(await api.get('/v1/api-keys/self', { key: null }), 401, 'unauthenticated')
})

test('only a key with admin or read may list applications', async () => {
  const { api } = stack
  for (const [scope, status] of [
    ['admin', 200],
    ['read', 200],
    ['revoke', 403],
    ['issue', 403],
  ] as const) {
    const { key } = await newKey({ name: scope, scopes: [scope] })
    expect((await api.get('/v1/apps', { key })).status, scope).toBe(status)
  }
})

test('reading events after the latest returns none, with the sequence from which to continue', async () => {
  const { api } = stack
  const { appId, plan, issue, verb } = await givenVendor(stack)
  const other = await givenVendor(stack)
  const { key } = await newKey({ name: 'listener', scopes: ['read'], app_id: appId })
  const licence = await issue((await plan()).id)
  const elsewhere = await other.issue((await other.plan()).id)
  await verb('suspend', licence.id)
  interface Events {
    data: { sequence: number; type: string; application_id: string }[]
    next_after: number
  }
  const events = async (after: string | number, request = {}) => {
    const answer = await api.get<Events>(`/v1/events?after=${after}`, request)
    expect(answer.status).toBe(200)
    return answer.body
  }
  const recorded = (after: number) =>
    eventually(async () => {
      const { data } = await events(after, { key })
      expect(data.length).toBeGreaterThan(0)
      return data
    })
  await recorded(0)
  const start = await events('latest', { key })
  expect(start.data).toEqual([])
  await other.verb('suspend', elsewhere.id)
  await verb('reactivate', licence.id)
  const own = await recorded(start.next_after)
  expect(own).toMatchObject([{ type: 'licence.reactivated', application_id: appId }])
  expect(own[0]!.sequence).toBeGreaterThan(start.next_after)
  const whole = await eventually(async () => {
    const { data } = await events(start.next_after)
    expect(data).toHaveLength(2)
    return data
  })
  expect((await events('latest')).next_after).toBe(whole.at(-1)!.sequence)
  for (const after of ['last', '-1', '']) expectInvalid(await api.get(`/v1/events?after=${after}`), '/after')
})

test('an answer has the request id of its caller, or a new one', async () => {
  const { api } = stack
  const given = await api.get('/v1/account', { headers: { 'x-request-id': 'mine-42!' } })
  expect(given.headers.get('x-request-id')).toBe('mine-42!')
  for (const bad of ['x'.repeat(129), 'two words']) {
    const answer = await api.get('/v1/account', { headers: { 'x-request-id': bad } })
    expect(answer.headers.get('x-request-id')).toMatch(/^[\x21-\x7e]{1,128}$/)
    expect(answer.headers.get('x-request-id')).not.toBe(bad)
  }
})

test('the URL in the type of every error code explains the error', async () => {
  const problem = expectProblem(await stack.api.get('/v1/nowhere'), 404, 'not_found')
  const page = await fetch(`${stack.gatewayUrl}${problem.type}`)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('not_found')
  expect((await fetch(`${stack.gatewayUrl}/errors/nonsense`)).status).toBe(404)
})

test('page size and cursor are validated before anything is read', async () => {
  const { api } = stack
  for (const limit of ['0', '201', '-1', '1.5', 'ten', '']) {
    expectInvalid(await api.get(`/v1/apps?limit=${limit}`), '/limit')
  }
  for (const cursor of ['nonsense', 'MQ', '%00']) {
    expectProblem(await api.get(`/v1/apps?cursor=${cursor}`), 400, 'bad_request')
  }
})

test('the gateway serves liveness, readiness, and the OpenAPI document', async () => {
  const page = apiClient(stack.gatewayUrl, '')
  expect((await page.get('/healthz', { key: null })).status).toBe(200)
  expect((await page.get('/readyz', { key: null })).status).toBe(200)
  const document = await page.get<{ openapi: string; paths: object }>('/openapi.json', { key: null })
  expect(document.body.openapi).toMatch(/^3\.1/)
  expect(document.body.paths).toHaveProperty(['/v1/apps/{app_id}/licences'])
  expect((await page.get('/docs', { key: null })).status).toBeLessThan(400)
})

test('an operator sets an account’s quotas, a call over a quota gets 409 with its limit, and other accounts are not affected', async () => {
  const made = await runAdmin(stack, 'create-account', '--name', 'Limited')
  const limited = JSON.parse(made.stdout) as { account_id: string; app_id: string; key: string }
  const api = apiClient(stack.gatewayUrl, limited.key)
  const app = `/v1/apps/${limited.app_id}`
  const quotas = [
    '--applications',
    '--api-keys',
    '--plans',
    '--entitlement-defs',
    '--webhook-endpoints',
    '--activations',
  ]
  const options = quotas.flatMap((option) => [option, '2'])
  const set = await runAdmin(stack, 'set-quota', '--account', limited.account_id, ...options)
  expect(set).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(set.stdout)).toEqual({
    account_id: limited.account_id,
    applications: 2,
    api_keys: 2,
    plans: 2,
    entitlement_defs: 2,
    webhook_endpoints: 2,
    activations: 2,
  })
  const name = () => `n${randomUUID().replaceAll('-', '')}`
  const post = (path: string, body: object, key?: null) =>
    api.post<{ id: string; key: string }>(path, {
      body,
      headers: { 'idempotency-key': randomUUID() },
      ...(key === null && { key }),
    })
  const plan = await post(`${app}/plans`, { name: 'first', code: 'first' })
  const licence = await post(`${app}/licences`, { external_ref: 'c', plan_id: plan.body.id })
  const machine = { licence_key: licence.body.key, host: 'a.example.com', product_version: '1' }
  const makers: [number, () => ReturnType<typeof post>][] = [
    [1, () => post('/v1/apps', { name: name() })],
    [1, () => post('/v1/api-keys', { name: name(), scopes: ['read'] })],
    [1, () => post(`${app}/plans`, { name: 'x', code: name() })],
    [2, () => post(`${app}/entitlement-defs`, { key: name(), kind: 'feature' })],
    [2, () => post(`${app}/webhook-endpoints`, { url: `https://${hostName()}:9/`, subscribed_events: '*' })],
    [1, () => post('/v1/activations', { ...machine, fingerprint: name() }, null)],
    [1, () => post(`${app}/offline-activations`, { ...machine, fingerprint: name(), days: 1 })],
  ]
  for (const [left, make] of makers) {
    for (let count = 0; count < left; count += 1) expect(await make()).toMatchObject({ status: 201 })
  }
  for (const [, make] of makers) {
    const refused = await make()
    expectProblem(refused, 409, 'quota_exceeded')
    expect(refused.body).toMatchObject({ limit: 2 })
  }
  await newKey({ name: 'of another account', scopes: ['read'] })
})
