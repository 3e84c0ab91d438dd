import { apiClient } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { expectProblem, expectStatus, givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()
const { app, plan, keyWith } = await givenVendor(stack)
const portal = { 'x-requested-with': 'portal' }
const [here, replica] = stack.gatewayUrls.map((url) => apiClient(url, '')) as [
  ReturnType<typeof apiClient>,
  ReturnType<typeof apiClient>,
]

/** Signs in at the first gateway. */
const signIn = async (key: string, headers: Record<string, string> = {}) => {
  const answer = await here.post('/portal/session', { key: null, headers, body: { key } })
  return { answer, cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '' }
}

test('a session has the rights of its key on every replica until it is signed out', async () => {
  const { key, id } = await keyWith({ scopes: ['read', 'admin'] })
  const { answer, cookie } = await signIn(key)
  expectStatus(answer, 204)
  expect(cookie).not.toContain(key)
  const asBrowser = { key: null, headers: { cookie, ...portal, origin: stack.gatewayUrl } }
  const self = { id, scopes: ['read', 'admin'] }
  expect((await here.get('/v1/api-keys/self', asBrowser)).body).toMatchObject(self)
  const body = { name: 'Pro', code: 'portal-pro' }
  expectStatus(await here.post(`${app}/plans`, { ...asBrowser, body }), 201)
  const issue = {
    ...asBrowser,
    headers: { ...asBrowser.headers, 'idempotency-key': 'one' },
    body: { plan_id: (await plan()).id, external_ref: 'customer' },
  }
  expectProblem(await here.post(`${app}/licences`, issue), 403, 'insufficient_scope')

  const there = (headers: Record<string, string>) =>
    replica.get('/v1/account', { key: null, headers: { cookie, ...headers } })
  expectStatus(await there(portal), 200)
  expectProblem(await there({}), 401, 'unauthenticated')
  expectProblem(await there({ ...portal, origin: 'https://evil.example' }), 403, 'origin_refused')
  expectProblem(await there({ ...portal, authorization: 'Bearer nonsense' }), 401, 'unauthenticated')
  expectStatus(await there({ ...portal, authorization: `Bearer ${stack.apiKey}` }), 200)
  expectProblem((await signIn(key, { origin: 'null' })).answer, 403, 'origin_refused')

  const signedOut = await here.delete('/portal/session', asBrowser)
  expectStatus(signedOut, 204)
  const [cleared] = signedOut.headers.get('set-cookie')!.split(';')
  expectProblem(await there({ ...portal, cookie: cleared! }), 401, 'unauthenticated')
})

test('a session ends on every replica within 2 seconds of the revocation of its key', async () => {
  const { key, id } = await keyWith({ scopes: ['read', 'admin'] })
  const { cookie } = await signIn(key)
  const seen = async () => {
    const request = { key: null, headers: { cookie, ...portal } }
    return Promise.all([here, replica].map(async (each) => (await each.get('/v1/account', request)).status))
  }
  expect(await seen()).toEqual([200, 200])
  expectStatus(await stack.api.delete(`/v1/api-keys/${id}`), 204)
  await eventually(async () => expect(await seen()).toEqual([401, 401]), { timeoutMs: 2_000 })
  expectProblem((await signIn(key)).answer, 401, 'unauthenticated')
})
