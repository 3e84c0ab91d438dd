import { apiClient } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
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

test('the account tells its name and where its alerts go, and both can be changed', async () => {
  const { api, accountId } = stack
  const before = await api.get<Record<string, unknown>>('/v1/account')
  expect(before.body).toMatchObject({ id: accountId, alert_email: 'alerts@localhost' })
  expect((await api.patch('/v1/account', { body: {} })).body).toEqual(before.body)
  expect(
    (await api.patch('/v1/account', { body: { name: 'Acme', alert_email: 'ops@acme.example' } })).body,
  ).toMatchObject({
    id: accountId,
    name: 'Acme',
    alert_email: 'ops@acme.example',
  })
  expect((await api.patch('/v1/account', { body: { alert_email: null } })).body).toMatchObject({
    name: 'Acme',
    alert_email: null,
  })
  expectInvalid(await api.patch('/v1/account', { body: { alert_email: 'nobody' } }), '/alert_email')
  expectInvalid(await api.patch('/v1/account', { body: { name: '' } }), '/name')
  expectInvalid(await api.patch('/v1/account', { body: { id: accountId } }), '/id')
})

test('an application is made and listed', async () => {
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

test('a key is shown once, works at once with its scopes alone, and is listed without itself', async () => {
  const made = await newKey({ name: 'shop', scopes: ['read'] })
  expect(made).toMatchObject({ name: 'shop', scopes: ['read'], app_id: null })
  expect(made.id).toMatch(/^key_[0-9a-z]{26}$/)
  expect(made.key).toMatch(/^lsk_[0-9A-Za-z]{6}_[0-9A-Za-z]{43,}$/)
  const { api } = stack
  expect((await api.get('/v1/events', { key: made.key })).status).toBe(200)
  expectProblem(await api.get('/v1/apps', { key: made.key }), 403, 'insufficient_scope')
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

test('what a new key asks for is checked', async () => {
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
  const revokedAt = Date.now()
  await eventually(async () => {
    expectProblem(await api.get('/v1/events', { key: made.key }), 401, 'unauthenticated')
  })
  expect(Date.now() - revokedAt).toBeLessThan(2_000)
  expect((await api.delete(`/v1/api-keys/${made.id}`)).status).toBe(204)
  const listed = (await allRows<ApiKey>(api, '/v1/api-keys')).find(({ id }) => id === made.id)
  expect(listed?.revoked_at).toMatch(isoTime)
  expectProblem(await api.delete('/v1/api-keys/key_01k9zj3v8qe5ktw2m4x6r7n8ab'), 404, 'not_found')
})

test('a key bound to one application reaches nothing of another', async () => {
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
  for (const path of ['/v1/account', '/v1/spend-cap', '/v1/processor', '/v1/fees', '/v1/api-keys']) {
    expectProblem(await api.get(path, { key }), 403, 'insufficient_scope')
  }
  const applications = await api.get<{ data: { id: string }[] }>('/v1/apps', { key })
  expect(applications.body.data.map(({ id }) => id)).toEqual([mine.appId])
  expectProblem(
    await api.post('/v1/api-keys', { key, body: { name: 'x', scopes: ['read'] } }),
    403,
    'insufficient_scope',
  )
})

test('a request is known by the id that its caller gave, or by a new one', async () => {
  const { api } = stack
  const given = await api.get('/v1/account', { headers: { 'x-request-id': 'mine-42!' } })
  expect(given.headers.get('x-request-id')).toBe('mine-42!')
  for (const bad of ['x'.repeat(129), 'two words']) {
    const answer = await api.get('/v1/account', { headers: { 'x-request-id': bad } })
    expect(answer.headers.get('x-request-id')).toMatch(/^[\x21-\x7e]{1,128}$/)
    expect(answer.headers.get('x-request-id')).not.toBe(bad)
  }
})

test('every error code is explained where its type points to', async () => {
  const problem = expectProblem(await stack.api.get('/v1/nowhere'), 404, 'not_found')
  const page = await fetch(`${stack.gatewayUrl}${problem.type}`)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('not_found')
  expect((await fetch(`${stack.gatewayUrl}/errors/nonsense`)).status).toBe(404)
})

test('a page’s size and cursor are checked before anything is read', async () => {
  const { api } = stack
  for (const limit of ['0', '201', '-1', '1.5', 'ten', '']) {
    expectInvalid(await api.get(`/v1/apps?limit=${limit}`), '/limit')
  }
  for (const cursor of ['nonsense', 'MQ', '%00']) {
    expectProblem(await api.get(`/v1/apps?cursor=${cursor}`), 400, 'bad_request')
  }
})

test('the gateway says that it is alive, ready, and what it can do', async () => {
  const page = apiClient(stack.gatewayUrl, '')
  expect((await page.get('/healthz', { key: null })).status).toBe(200)
  expect((await page.get('/readyz', { key: null })).status).toBe(200)
  const document = await page.get<{ openapi: string; paths: object }>('/openapi.json', { key: null })
  expect(document.body.openapi).toMatch(/^3\.1/)
  expect(document.body.paths).toHaveProperty(['/v1/apps/{app_id}/licences'])
  expect((await page.get('/docs', { key: null })).status).toBeLessThan(400)
})
