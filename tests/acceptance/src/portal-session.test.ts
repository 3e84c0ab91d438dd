import { apiClient } from '@licensing/test-support/api-client'
import type { ApiRequest } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectProblem } from './vendor.ts'

let stack: Stack
beforeAll(async () => {
  stack = await startStack({ replicas: { gateway: 2 }, environment: { LOG_LEVEL: 'trace' } })
})
afterAll(() => stack[Symbol.asyncDispose]())

const portal = { 'x-requested-with': 'portal' }

async function givenKey(...scopes: string[]): Promise<{ id: string; key: string }> {
  const made = await stack.api.post<{ id: string; key: string }>('/v1/api-keys', {
    body: { name: 'portal', scopes },
  })
  expect(made.status).toBe(201)
  return made.body
}

/** A client of one gateway that keeps its cookie, as a browser does. */
function browserAt(gatewayUrl: string) {
  const api = apiClient(gatewayUrl, '')
  let cookie = ''
  const withCookie = ({ headers, ...request }: ApiRequest = {}): ApiRequest => ({
    key: null,
    headers: { cookie, ...portal, origin: gatewayUrl, ...headers },
    ...request,
  })
  return {
    get cookie() {
      return cookie
    },
    signIn: async (key: string, headers: Record<string, string> = {}) => {
      const answer = await api.post('/portal/session', { key: null, headers, body: { key } })
      cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
      return answer
    },
    signOut: async () => {
      const answer = await api.delete('/portal/session', withCookie())
      cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? cookie
      return answer
    },
    get: (path: string, request?: ApiRequest) => api.get(path, withCookie(request)),
    post: (path: string, request?: ApiRequest) => api.post<{ id: string }>(path, withCookie(request)),
  }
}

test('a session has the rights of its key on every replica until it is signed out', async () => {
  const { key, id } = await givenKey('read', 'admin')
  const browser = browserAt(stack.gatewayUrl)
  expect((await browser.signIn(key)).status).toBe(204)
  expect(browser.cookie).not.toContain(key)
  expect((await browser.get('/v1/api-keys/self')).body).toMatchObject({ id, scopes: ['read', 'admin'] })
  const plan = await browser.post(`/v1/apps/${stack.appId}/plans`, {
    body: { name: 'Pro', code: 'portal-pro' },
  })
  expect(plan.status).toBe(201)
  expect(await stack.api.get(`/v1/apps/${stack.appId}/plans/${plan.body.id}`)).toMatchObject({ status: 200 })
  const issue = {
    body: { plan_id: plan.body.id, external_ref: 'customer' },
    headers: { 'idempotency-key': 'one' },
  }
  expectProblem(await browser.post(`/v1/apps/${stack.appId}/licences`, issue), 403, 'insufficient_scope')

  const replica = apiClient(stack.gatewayUrls[1]!, '')
  const there = (headers: Record<string, string>) =>
    replica.get('/v1/account', { key: null, headers: { cookie: browser.cookie, ...headers } })
  expect((await there(portal)).status).toBe(200)
  expectProblem(await there({}), 401, 'unauthenticated')
  expectProblem(await there({ ...portal, origin: 'https://evil.example' }), 403, 'origin_refused')
  expectProblem(await there({ ...portal, authorization: 'Bearer nonsense' }), 401, 'unauthenticated')
  expect((await there({ ...portal, authorization: `Bearer ${stack.apiKey}` })).status).toBe(200)
  expectProblem(await browserAt(stack.gatewayUrl).signIn(key, { origin: 'null' }), 403, 'origin_refused')

  expect((await browser.signOut()).status).toBe(204)
  expectProblem(await browser.get('/v1/account'), 401, 'unauthenticated')
})

test('a session ends on every replica within 2 seconds of the revocation of its key', async () => {
  const { key, id } = await givenKey('read', 'admin')
  const browser = browserAt(stack.gatewayUrl)
  await browser.signIn(key)
  const seen = () =>
    Promise.all(
      stack.gatewayUrls.map(async (url) => {
        const headers = { cookie: browser.cookie, ...portal }
        return (await apiClient(url, '').get('/v1/account', { key: null, headers })).status
      }),
    )
  expect(await seen()).toEqual([200, 200])
  expect((await stack.api.delete(`/v1/api-keys/${id}`)).status).toBe(204)
  await eventually(async () => expect(await seen()).toEqual([401, 401]), { timeoutMs: 2_000 })
  expectProblem(await browser.signIn(key), 401, 'unauthenticated')
})

test('logs contain no key and no session', async () => {
  const { key } = await givenKey('admin')
  const wrong = `lsk_${'wrong-'.repeat(8)}`
  const browser = browserAt(stack.gatewayUrl)
  expectProblem(await browser.signIn(wrong), 401, 'unauthenticated')
  expect((await browser.signIn(key)).status).toBe(204)
  const { cookie } = browser
  expect((await browser.get('/v1/account')).status).toBe(200)
  const broken = { key: null, body: `{"key":"${wrong}` }
  expectProblem(await apiClient(stack.gatewayUrl, '').post('/portal/session', broken), 400, 'bad_request')
  const [first] = stack.processes.gateway
  await eventually(async () => expect(await first!.log()).toContain('"route":"/portal/session","status":400'))
  const logs = await Promise.all(
    Object.values(stack.processes).flatMap((all) => all.map((each) => each.log())),
  )
  for (const secret of [
    key,
    wrong,
    cookie.slice(cookie.indexOf('=') + 1),
    first!.environment['PORTAL_SESSION_KEY']!,
  ]) {
    expect(secret.length).toBeGreaterThan(40)
    for (const log of logs) expect(log).not.toContain(secret)
  }
})
