import type { Scope } from '@licensing/proto/closed-sets'
import { describe, expect, test } from 'vitest'
import type { Route } from './route.ts'
import { routes } from './routes/table.ts'
import { appId, gatewayOfFile, otherAccountAppId, otherAppId, pathOf } from '../test/gateway.ts'

const scopes: Scope[] = ['admin', 'read', 'revoke', 'issue']

// The rules of docs/guides/concepts.md, "Scopes of API keys", written a second time for each route to check the table of routes.
const lifecycle = ['suspend', 'reactivate', 'revoke', 'retire'].map(
  (verb) => `POST /v1/licences/{licence_id}/${verb}`,
)
const app = '/v1/apps/{app_id}'
const expected: Record<string, Scope[]> = {
  ...Object.fromEntries(lifecycle.map((route) => [route, ['revoke']])),
  [`POST ${app}/licences`]: ['issue'],
  [`POST ${app}/licences/import`]: ['issue'],
  [`POST ${app}/checkout-sessions`]: ['issue'],
  [`POST ${app}/checkout-sessions/{session_id}/replay`]: ['issue'],
  [`POST ${app}/sale-events`]: ['issue'],
  [`POST ${app}/sale-events/{sale_id}/refunds`]: ['issue'],
  [`POST ${app}/sale-events/{sale_id}/renewals`]: ['issue'],
  [`POST ${app}/sale-events/{sale_id}/failures`]: ['issue'],
  [`POST ${app}/sale-events/{sale_id}/cancellation`]: ['issue'],
  [`POST ${app}/offline-activations`]: ['issue'],
  [`GET ${app}/licences`]: ['read'],
  'GET /v1/licences/{licence_id}': ['read'],
  'PATCH /v1/licences/{licence_id}': ['issue'],
  'PUT /v1/licences/{licence_id}/overrides/{key}': ['issue'],
  'DELETE /v1/licences/{licence_id}/overrides/{key}': ['issue'],
  'POST /v1/licences/{licence_id}/take-plan-values': ['issue'],
  'POST /v1/licences/{licence_id}/rotate-key': ['issue'],
  'POST /v1/licences/{licence_id}/customer-sessions': ['issue'],
  'DELETE /v1/licences/{licence_id}/customer-sessions': ['issue'],
  [`PATCH ${app}`]: ['admin'],
  'GET /v1/licences/{licence_id}/history': ['read'],
  'GET /v1/licences/{licence_id}/activations': ['read'],
  'DELETE /v1/licences/{licence_id}/activations/{activation_id}': ['revoke'],
  [`GET ${app}/search`]: ['read'],
  [`GET ${app}/metrics`]: ['read'],
  [`GET ${app}/checkout-sessions`]: ['read'],
  [`GET ${app}/sale-events`]: ['read'],
  [`GET ${app}/sale-events/{sale_id}`]: ['read'],
  [`GET ${app}/checkout-sessions/{session_id}`]: ['read'],
  'GET /v1/events': ['read'],
  'GET /v1/apps': ['admin', 'read'],
  'GET /v1/api-keys/self': ['admin', 'read', 'revoke', 'issue'],
  [`GET ${app}/payments`]: ['read'],
  [`GET ${app}/refunds`]: ['read'],
  'GET /v1/fees': ['read'],
  [`GET ${app}/entitlement-defs`]: ['admin', 'read'],
  [`GET ${app}/entitlement-defs/{ent_id}`]: ['admin', 'read'],
  [`GET ${app}/plans`]: ['admin', 'read'],
  [`GET ${app}/plans/{plan_id}`]: ['admin', 'read'],
  [`GET ${app}/webhook-endpoints`]: ['admin', 'read'],
  [`GET ${app}/webhook-endpoints/{endpoint_id}`]: ['admin', 'read'],
  [`GET ${app}/webhook-deliveries`]: ['admin', 'read'],
  [`GET ${app}/webhook-deliveries/{delivery_id}`]: ['admin', 'read'],
  [`GET ${app}/webhook-deliveries/{delivery_id}/attempts`]: ['admin', 'read'],
  'GET /v1/alerts': ['read'],
}

const vendorRoutes = routes.filter(({ audience }) => audience === 'vendor')

const keys = new Map<Scope, string>()

const gateway = await gatewayOfFile()
for (const scope of scopes) keys.set(scope, gateway.keyWith([scope]))

function send(route: Route, key: string | null, application?: string) {
  const call = gateway.api[route.method.toLowerCase() as 'get']
  // The body is invalid, so that no service is called.
  return call(pathOf(route.path, application), { key, ...(route.method !== 'GET' && { body: '[' }) })
}

test('every route named here is in the table', () => {
  const named = vendorRoutes.map(({ method, path }) => `${method} ${path}`)
  expect(named).toEqual(expect.arrayContaining(Object.keys(expected)))
})

describe.each(vendorRoutes.map((route) => [`${route.method} ${route.path}`, route] as const))(
  '%s',
  (name, route) => {
    const allowed = expected[name] ?? ['admin']

    test.each(scopes)('is allowed only with its scopes: %s', async (scope) => {
      const answer = await send(route, keys.get(scope)!)
      if (allowed.includes(scope)) {
        expect([401, 403]).not.toContain(answer.status)
      } else {
        expect(answer.status).toBe(403)
        expect(answer.body).toMatchObject({ code: 'insufficient_scope' })
        for (const needed of allowed) expect(String(answer.body['detail'])).toContain(needed)
      }
      expect(answer.headers.get('ratelimit')).toMatch(/^"key";r=\d+;t=\d+$/)
      expect(answer.headers.get('ratelimit-policy')).toBe('"key";q=100000;w=60')
    })

    test('answers 401 without a key and for an unknown or malformed key', async () => {
      for (const key of [null, `lsk_${'0'.repeat(50)}`, 'lsk_short', 'x'.repeat(50)]) {
        const answer = await send(route, key)
        expect(answer.status).toBe(401)
        expect(answer.headers.get('www-authenticate')).toBe('Bearer')
        expect(answer.headers.get('ratelimit')).toBeTruthy()
      }
    })

    test('does not allow pages of other origins', async () => {
      const answer = await send(route, keys.get(allowed[0]!)!)
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    })
  },
)

test.each(
  vendorRoutes
    .filter(({ path }) => path.includes('{app_id}'))
    .map((route) => [`${route.method} ${route.path}`, route] as const),
)('%s finds no application of another account, or other than that of a bound key', async (name, route) => {
  const scope = (expected[name] ?? ['admin'])[0]!
  const bound = gateway.keyWith([scope], appId)
  expect((await send(route, keys.get(scope)!, otherAccountAppId)).status).toBe(404)
  expect((await send(route, bound, otherAppId)).status).toBe(404)
  expect((await send(route, bound, appId)).status).not.toBe(403)
})

// The routes that an API key bound to one application must not call, written a second time.
const accountWide = [
  'GET /v1/account',
  'PATCH /v1/account',
  'GET /v1/spend-cap',
  'PUT /v1/spend-cap',
  'GET /v1/processor',
  'POST /v1/processor/authorizations',
  'PUT /v1/processor',
  'GET /v1/fees',
  'POST /v1/apps',
  'POST /v1/api-keys',
  'GET /v1/api-keys',
  'DELETE /v1/api-keys/{key_id}',
  'POST /v1/members',
  'GET /v1/members',
  'GET /v1/members/{member_id}',
  'PATCH /v1/members/{member_id}',
  'DELETE /v1/members/{member_id}',
]

test.each(
  vendorRoutes
    .filter(({ path }) => !path.includes('{app_id}') && !path.includes('{licence_id}'))
    .map((route) => [`${route.method} ${route.path}`, route] as const),
)('%s refuses a bound key if and only if the route is about the whole account', async (name, route) => {
  const key = gateway.keyWith(scopes, appId)
  const path = pathOf(route.path)
  const call = gateway.api[route.method.toLowerCase() as 'get']
  const before = gateway.calls.length
  const answer = await call(path, { key, ...(route.method !== 'GET' && { body: {} }) })
  if (!accountWide.includes(name)) {
    expect(answer.status).not.toBe(403)
    return
  }
  expect(answer.status).toBe(403)
  expect(answer.body).toMatchObject({ code: 'insufficient_scope' })
  expect(String(answer.body['detail'])).toContain(appId)
  expect(gateway.calls.slice(before).filter((name) => !name.startsWith('authenticateKey'))).toEqual([])
})
