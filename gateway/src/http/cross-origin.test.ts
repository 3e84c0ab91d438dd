import { expect, test } from 'vitest'
import { appId, gatewayOfFile } from '../../test/gateway.ts'

const gateway = await gatewayOfFile()
const origin = 'https://studio.example.com'
test.each([
  ['/v1/activations', 'POST'],
  ['/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab', 'DELETE'],
  ['/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab/refresh', 'POST'],
  ['/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab/call-home', 'POST'],
  [`/v1/apps/${appId}/revocations`, 'GET'],
  [`/v1/apps/${appId}/jwks.json`, 'GET'],
  [`/v1/apps/${appId}/migrate`, 'POST'],
])('a page of any origin may call %s with %s, and read its answer and its errors', async (path, method) => {
  const preflight = await fetch(`${gateway.url}${path}`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'authorization,content-type',
    },
  })
  expect(preflight.status).toBe(204)
  expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
  expect(preflight.headers.get('access-control-allow-methods')).toContain(method)
  const accepted = preflight.headers.get('access-control-allow-headers')?.toLowerCase()
  expect(accepted).toContain('authorization')
  expect(accepted).toContain('content-type')

  for (const used of [method, 'PUT']) {
    const answer = await fetch(`${gateway.url}${path}`, { method: used, headers: { origin } })
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    const exposed = answer.headers.get('access-control-expose-headers')
    for (const name of ['ETag', 'Retry-After', 'RateLimit', 'RateLimit-Policy', 'X-Request-Id']) {
      expect(exposed?.split(', ')).toContain(name)
    }
  }
})

test('a successful answer is readable too', async () => {
  gateway.answers.products.migrateLegacyKey = async () => ({ licenceId: 'lic_1', key: 'A' })
  const body = { legacy_key: 'old-1' }
  const answer = await gateway.api.post(`/v1/apps/${appId}/migrate`, { key: null, body })
  expect(answer.status).toBe(200)
  expect(answer.headers.get('access-control-allow-origin')).toBe('*')
})

test('the paths of vendors and of the processor answer OPTIONS without permission for any origin', async () => {
  for (const path of [`/v1/apps/${appId}/plans`, '/v1/events', '/v1/processors/stripe/events']) {
    const answer = await fetch(`${gateway.url}${path}`, { method: 'OPTIONS', headers: { origin } })
    expect(answer.status).toBe(204)
    expect(answer.headers.get('allow')).toContain('OPTIONS')
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect(answer.headers.get('access-control-allow-methods')).toBeNull()
  }
})
