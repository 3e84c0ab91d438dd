import { apiClient } from '@licensing/test-support/api-client'
import { runAdmin } from '@licensing/test-support/run-admin'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'

let stack: Stack
beforeAll(async () => {
  stack = await sharedStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Member {
  id: string
  role: string
  email: string
  removed_at: string | null
}

interface Problem {
  code: string
  errors?: { pointer: string }[]
}

const add = (body: object, options: { key?: string; headers?: Record<string, string> } = {}) =>
  stack.api.post<Member & Problem>('/v1/members', { body, ...options })
const pointersOf = ({ errors = [] }: Problem) => errors.map(({ pointer }) => pointer)
const newAddress = () => `${randomUUID()}@example.com`

test('a member is created, read, listed, given another role and removed, and stays listed', async () => {
  const email = `Ann.${randomUUID()}@Example.com`
  const made = await add({ email, role: 'support', app_id: stack.appId })
  expect(made.status).toBe(201)
  expect(made.body).toEqual({
    id: expect.stringMatching(/^usr_[0-7][0-9a-hjkmnp-tv-z]{25}$/),
    email,
    name: null,
    role: 'support',
    app_id: stack.appId,
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    last_sign_in_at: null,
    removed_at: null,
  })
  const path = `/v1/members/${made.body.id}`
  expect((await stack.api.get(path)).body).toEqual(made.body)
  const changed = await stack.api.patch(path, { body: { role: 'viewer' } })
  expect([changed.status, changed.body]).toEqual([200, { ...made.body, role: 'viewer' }])
  expect((await stack.api.patch(path, { body: {} })).body).toEqual(changed.body)
  for (const _ of [1, 2]) expect((await stack.api.delete(path)).status).toBe(204)
  const { body } = await stack.api.get<{ data: Member[]; next_cursor: string | null }>('/v1/members?limit=1')
  expect(body.data).toMatchObject([{ id: made.body.id, role: 'viewer', removed_at: expect.any(String) }])
  const late = await stack.api.patch<Problem>(path, { body: { role: 'admin' } })
  expect([late.status, late.body.code]).toEqual([409, 'conflict'])
})

test('a wrong body is refused with each pointer, an address that exists with 409, a repetition is replayed', async () => {
  const email = newAddress()
  const headers = { 'idempotency-key': randomUUID() }
  const first = await add({ email, role: 'viewer' }, { headers })
  const replay = await add({ email, role: 'viewer' }, { headers })
  expect([replay.status, replay.body.id]).toEqual([201, first.body.id])
  expect(replay.headers.get('idempotent-replayed')).toBe('true')
  const again = await add({ email: email.toUpperCase(), role: 'admin' })
  expect([again.status, again.body.code]).toEqual([409, 'already_exists'])
  for (const [body, pointers] of [
    [{ role: 'viewer' }, ['/email']],
    [{ email: 'x', role: 'viewer' }, ['/email']],
    [{ email: 'k\u212a@example.com', role: 'viewer' }, ['/email']],
    [{ email: newAddress(), role: 'root' }, ['/role']],
    [{ email: newAddress(), role: 'viewer', app_id: 'app_01k9zj3v8qe5ktw2m4x6r7n8ab' }, ['/app_id']],
    [{ email: newAddress(), role: 'owner', app_id: stack.appId }, ['/app_id']],
    [{ email: newAddress(), role: 'viewer', name: 'x' }, ['/name']],
  ] as const) {
    const refused = await add(body)
    expect([refused.status, pointersOf(refused.body)], JSON.stringify(body)).toEqual([422, pointers])
  }
  const bound = await add({ email: newAddress(), role: 'viewer', app_id: stack.appId })
  const owner = await stack.api.patch<Problem>(`/v1/members/${bound.body.id}`, { body: { role: 'owner' } })
  expect([owner.status, pointersOf(owner.body)]).toEqual([422, ['/role']])
})

test('of two calls at once that would leave no owner, on two gateways, one is refused', async () => {
  const ids = await Promise.all(
    [1, 2].map(async () => (await add({ email: newAddress(), role: 'owner' })).body.id),
  )
  const apis = stack.gatewayUrls.map((url) => apiClient(url, stack.apiKey))
  const statuses = await Promise.all([
    apis[0]!.delete(`/v1/members/${ids[0]}`).then(({ status }) => status),
    apis
      .at(-1)!
      .patch(`/v1/members/${ids[1]}`, { body: { role: 'admin' } })
      .then(({ status }) => status),
  ])
  expect(statuses.filter((status) => status === 409)).toHaveLength(1)
})

test('keys without the scope admin and bound keys can do nothing, and another account’s member is not found', async () => {
  const { body: member } = await add({ email: newAddress(), role: 'viewer' })
  const path = `/v1/members/${member.id}`
  const keyOf = async (body: object) =>
    (await stack.api.post<{ key: string }>('/v1/api-keys', { body: { name: 'x', ...body } })).body.key
  const keys = [
    await keyOf({ scopes: ['read', 'issue', 'revoke'] }),
    await keyOf({ scopes: ['admin'], app_id: stack.appId }),
  ]
  const body = { email: newAddress(), role: 'viewer' }
  const all = (key: string) =>
    Promise.all([
      stack.api.get('/v1/members', { key }),
      stack.api.get(path, { key }),
      stack.api.post('/v1/members', { key, body }),
      stack.api.patch(path, { key, body: { role: 'admin' } }),
      stack.api.delete(path, { key }),
    ])
  for (const key of keys) {
    for (const { status, body: problem } of await all(key))
      expect([status, problem]).toMatchObject([403, { code: 'insufficient_scope' }])
  }
  const other = await runAdmin(stack, 'create-account', '--name', 'Other')
  const { key } = JSON.parse(other.stdout) as { key: string }
  const [list, ...others] = await all(key)
  expect(list.status).toBe(200)
  expect(JSON.stringify(list.body)).not.toContain(member.id)
  expect(others.map(({ status }) => status)).toEqual([404, 201, 404, 404])
})

test('the operator changes how many members an account may have', async () => {
  const made = JSON.parse((await runAdmin(stack, 'create-account', '--name', 'Small')).stdout) as {
    account_id: string
    key: string
  }
  await runAdmin(stack, 'set-quota', '--account', made.account_id, '--members', '1')
  expect((await add({ email: newAddress(), role: 'owner' }, { key: made.key })).status).toBe(201)
  const refused = await add({ email: newAddress(), role: 'owner' }, { key: made.key })
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'quota_exceeded', limit: 1 }])
})
