import { hostName } from '@licensing/test-support/docker'
import { apiClient } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenStack,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Page } from './vendor.ts'

const stack = await givenStack()
const { api, accountId } = stack
const { keyWith } = await givenVendor(stack)

test('the account shows its name and its alert address, and both can be changed', async () => {
  const patch = (body: object) => api.patch('/v1/account', { body })
  const before = await api.get('/v1/account')
  expect(before.body).toMatchObject({ id: accountId, name: 'Demo' })
  expect((await patch({})).body).toEqual(before.body)
  const changes = { name: 'Acme', alert_email: 'ops@acme.example' }
  const changed = { ...before.body, ...changes, alert_email_confirmed: false }
  expect((await patch(changes)).body).toEqual(changed)
  expect((await patch({ alert_email: null })).body).toEqual({ ...changed, alert_email: null })
  expectInvalid(await patch({ alert_email: 'nobody' }), '/alert_email')
  expectInvalid(await patch({ name: '' }), '/name')
  expectInvalid(await patch({ id: accountId }), '/id')
})

test('a key is shown once, works at once with only its scopes, and the list does not show its text', async () => {
  const made = await keyWith({ name: 'shop', scopes: ['read'] })
  const { key } = made
  expect(made).toMatchObject({ name: 'shop', scopes: ['read'], app_id: null })
  expect(made.id).toMatch(/^key_[0-9a-z]{26}$/)
  expect(key).toMatch(/^lsk_[0-9A-Za-z]{6}_[0-9A-Za-z]{43,}$/)
  expectStatus(await api.get('/v1/events', { key }), 200)
  expectProblem(await api.get('/v1/api-keys', { key }), 403, 'insufficient_scope')
  const listed = { name: 'shop', scopes: ['read'], last_four: key.slice(-4), revoked_at: null }
  await eventually(async () => {
    const row = (await allRows<{ id: string }>(api, '/v1/api-keys')).find(({ id }) => id === made.id)
    expect(row).toMatchObject({ ...listed, last_used_at: expect.stringMatching(isoTime) as string })
    expect(row).not.toHaveProperty('key')
  })
})

test('the fields of a new key are validated', async () => {
  const valid = { name: 'x', scopes: ['read'] }
  for (const [fields, pointer] of [
    [{ name: undefined }, '/name'],
    [{ scopes: undefined }, '/scopes'],
    [{ scopes: [] }, '/scopes'],
    [{ scopes: ['root'] }, '/scopes/0'],
    [{ app_id: unknownId('app') }, '/app_id'],
    [{ app_id: 'nonsense' }, '/app_id'],
    [{ key: 'lsk_mine' }, '/key'],
  ] as const) {
    expectInvalid(await api.post('/v1/api-keys', { body: { ...valid, ...fields } }), pointer)
  }
})

test('a revoked key is refused within 2 seconds, can be revoked again, and stays listed', async () => {
  const { id, key } = await keyWith({ scopes: ['read'] })
  const read = () => api.get('/v1/events', { key })
  expectStatus(await read(), 200)
  expectStatus(await api.delete(`/v1/api-keys/${id}`), 204)
  await eventually(async () => expectProblem(await read(), 401, 'unauthenticated'), { timeoutMs: 2_000 })
  expectStatus(await api.delete(`/v1/api-keys/${id}`), 204)
  const listed = (await allRows<{ id: string }>(api, '/v1/api-keys')).find((row) => row.id === id)
  expect(listed).toMatchObject({ revoked_at: expect.stringMatching(isoTime) as string })
  expectNotFound(await api.delete(`/v1/api-keys/${unknownId('key')}`))
})

test('a key bound to one application cannot access another', async () => {
  const [mine, other] = [await givenVendor(stack), await givenVendor(stack)]
  const { key } = await keyWith({ scopes: ['admin', 'read', 'revoke', 'issue'], app_id: mine.appId })
  const licence = `/v1/licences/${(await other.issue((await other.plan()).id)).id}`
  expectStatus(await api.get(`${mine.app}/plans`, { key }), 200)
  expectNotFound(await api.get(`${other.app}/plans`, { key }))
  expectNotFound(await api.get(licence, { key }))
  expectNotFound(await api.get(`${licence}/history`, { key }))
  expectNotFound(await api.post(`${licence}/suspend`, { key }))
  expectNotFound(await api.get(`${other.app}/webhook-deliveries`, { key }))
  const { id } = await keyWith({ scopes: ['read'], app_id: mine.appId })
  const processor = { processor: 'stripe', connected_account: 'acct_1' }
  for (const answer of [
    await api.post('/v1/apps', { key, body: { name: 'x' } }),
    await api.post('/v1/api-keys', { key, body: { name: 'x', scopes: ['read'] } }),
    await api.get('/v1/account', { key }),
    await api.patch('/v1/account', { key, body: { name: 'Mine' } }),
    await api.get('/v1/spend-cap', { key }),
    await api.put('/v1/spend-cap', { key, body: { cap_minor: null, currency: 'eur' } }),
    await api.get('/v1/processor', { key }),
    await api.put('/v1/processor', { key, body: processor }),
    await api.get('/v1/fees', { key }),
    await api.get('/v1/api-keys', { key }),
    await api.delete(`/v1/api-keys/${id}`, { key }),
  ]) {
    expectProblem(answer, 403, 'insufficient_scope')
  }
  const applications = await api.get<Page<object>>('/v1/apps', { key })
  expect(applications.body.data).toMatchObject([{ id: mine.appId }])
})

test('any key reads itself; only a key with admin or read may list applications', async () => {
  for (const [scope, app_id, status] of [
    ['admin', null, 200],
    ['read', stack.appId, 200],
    ['revoke', null, 403],
    ['issue', null, 403],
  ] as const) {
    const { id, name, key } = await keyWith({ scopes: [scope], app_id })
    const self = { id, name, scopes: [scope], app_id, account_id: accountId }
    expect((await api.get('/v1/api-keys/self', { key })).body).toEqual(self)
    expect((await api.get('/v1/apps', { key })).status, scope).toBe(status)
  }
  expectProblem(await api.get('/v1/api-keys/self', { key: null }), 401, 'unauthenticated')
})

test('an answer has the request id of its caller, or a new one', async () => {
  const idFor = async (id: string) => {
    const answer = await api.get('/v1/account', { headers: { 'x-request-id': id } })
    return answer.headers.get('x-request-id')
  }
  expect(await idFor('mine-42!')).toBe('mine-42!')
  for (const bad of ['x'.repeat(129), 'two words']) {
    const id = await idFor(bad)
    expect(id).toMatch(/^[\x21-\x7e]{1,128}$/)
    expect(id).not.toBe(bad)
  }
})

test('the URL in the type of every error code explains the error', async () => {
  const problem = expectProblem(await api.get('/v1/nowhere'), 404, 'not_found')
  const page = await fetch(`${stack.gatewayUrl}${problem.type}`)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('not_found')
  expect((await fetch(`${stack.gatewayUrl}/errors/nonsense`)).status).toBe(404)
})

test('page size and cursor are validated before anything is read', async () => {
  for (const limit of ['0', '201', '-1', '1.5', 'ten', '']) {
    expectInvalid(await api.get(`/v1/apps?limit=${limit}`), '/limit')
  }
  for (const cursor of ['nonsense', 'MQ', '%00']) {
    expectProblem(await api.get(`/v1/apps?cursor=${cursor}`), 400, 'bad_request')
  }
})

test('the gateway serves the OpenAPI document and its reference', async () => {
  const document = await api.get<{ openapi: string; paths: object }>('/openapi.json', { key: null })
  expect(document.body.openapi).toMatch(/^3\.1/)
  expect(document.body.paths).toHaveProperty(['/v1/apps/{app_id}/licences'])
  expect((await api.get('/docs', { key: null })).status).toBeLessThan(400)
})

test('an operator sets an account’s quotas, a call over a quota gets 409 with its limit, and other accounts are not affected', async () => {
  const made = await runAdmin(stack, 'create-account', '--name', 'Limited')
  const { account_id, app_id, key } = JSON.parse(made.stdout) as Record<string, string>
  const app = `/v1/apps/${app_id}`
  const names = ['applications', 'api-keys', 'plans', 'entitlement-defs', 'webhook-endpoints', 'activations']
  const options = names.flatMap((name) => [`--${name}`, '2'])
  const set = await runAdmin(stack, 'set-quota', '--account', account_id!, ...options)
  expect(set).toMatchObject({ code: 0, stderr: '' })
  const quotas = Object.fromEntries(names.map((name) => [name.replaceAll('-', '_'), 2]))
  expect(JSON.parse(set.stdout)).toEqual({ account_id, ...quotas })
  const limited = apiClient(stack.gatewayUrl, key!)
  const name = () => `n${randomUUID().replaceAll('-', '')}`
  const post = (path: string, body: object, request = {}) => {
    const headers = { 'idempotency-key': randomUUID() }
    return limited.post<{ id: string; key: string }>(path, { body, headers, ...request })
  }
  const plan = await post(`${app}/plans`, { name: 'first', code: 'first' })
  const licence = await post(`${app}/licences`, { external_ref: 'c', plan_id: plan.body.id })
  const machine = { licence_key: licence.body.key, host: 'a.example.com', product_version: '1' }
  const endpoint = { url: `https://${hostName()}:9/`, subscribed_events: '*' }
  const makers: [left: number, make: () => ReturnType<typeof post>][] = [
    [1, () => post('/v1/apps', { name: name() })],
    [1, () => post('/v1/api-keys', { name: name(), scopes: ['read'] })],
    [1, () => post(`${app}/plans`, { name: 'x', code: name() })],
    [2, () => post(`${app}/entitlement-defs`, { key: name(), kind: 'feature' })],
    [2, () => post(`${app}/webhook-endpoints`, endpoint)],
    [1, () => post('/v1/activations', { ...machine, fingerprint: name() }, { key: null })],
    [1, () => post(`${app}/offline-activations`, { ...machine, fingerprint: name(), days: 1 })],
  ]
  for (const [left, make] of makers) {
    for (let count = 0; count < left; count += 1) expectStatus(await make(), 201)
  }
  for (const [, make] of makers) {
    expect(expectProblem(await make(), 409, 'quota_exceeded')).toMatchObject({ limit: 2 })
  }
  for (const _ of [1, 2, 3]) await keyWith({ scopes: ['read'] })
})
