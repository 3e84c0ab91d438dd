import { expect, test } from 'vitest'
import { routes } from './routes/table.ts'
import { appId, gatewayOfFile, pathOf } from '../test/gateway.ts'

const planId = 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab'

const gateway = await gatewayOfFile()
for (const answers of Object.values(gateway.answers) as Record<string, unknown>[]) {
  // Every resource in a path exists.
  for (const name of [
    'getPlan',
    'getEntitlementDefinition',
    'getLicence',
    'getEndpoint',
    'getDelivery',
    'getCheckoutSession',
  ]) {
    answers[name] = async () => ({})
  }
}
const known = { key: 'export_pdf', kind: 'feature', value: 'true' }
gateway.answers.licensing.getLicence = async () => ({ entitlements: [known], overrides: [known] })

const withBodies = routes.filter(({ method, rawBody }) => method !== 'GET' && !rawBody)

test.each(withBodies.map((route) => [`${route.method} ${route.path}`, route] as const))(
  '%s reports every unknown field, and accepts only an object',
  async (_name, { method, path }) => {
    const call = (body: unknown) =>
      gateway.api[method.toLowerCase() as 'post']<{ errors: { pointer: string; message: string }[] }>(
        pathOf(path),
        {
          body,
          headers: { 'idempotency-key': 'k' },
        },
      )
    const unknown = await call('{"no_such_field":1,"__proto__":{"x":1},"constructor":2,"a/b~c":3}')
    expect(unknown.status).toBe(422)
    const pointers = unknown.body.errors.map(({ pointer }) => pointer)
    for (const pointer of ['/no_such_field', '/__proto__', '/constructor', '/a~1b~0c'])
      expect(pointers).toContain(pointer)
    for (const body of ['[]', 'null', '1', '"x"', 'true', '[{}]']) {
      const answer = await call(body)
      expect(answer.status, body).toBe(422)
      expect(answer.body.errors).toEqual([{ pointer: '', message: 'must be an object' }])
    }
    for (const body of ['{', '{"a":1,}', "{'a':1}", '{"a":NaN}', '\u{feff}{', '{}x']) {
      expect((await call(body)).status, body).toBe(400)
    }
  },
)

test('an empty body gets 400 if the route needs a body, and is accepted otherwise', async () => {
  for (const route of withBodies) {
    const call = gateway.api[route.method.toLowerCase() as 'post']
    for (const headers of [{}, { 'content-type': 'application/json' }]) {
      const { status } = await call(pathOf(route.path), { headers: { ...headers, 'idempotency-key': 'k' } })
      expect(status === 400, `${route.method} ${route.path} answers ${status}`).toBe(!route.bodyOptional)
    }
  }
})

test('NUL and unpaired surrogates are refused in every text that is stored', async () => {
  const licence = (field: string, value: string) =>
    gateway.api.post<{ errors: { pointer: string }[] }>(`/v1/apps/${appId}/licences`, {
      headers: { 'idempotency-key': 'k' },
      body: `{"plan_id":"${planId}","external_ref":"c","${field}":"${value}"}`,
    })
  for (const value of ['a\\u0000b', '\\ud800', '\\udc00x', 'x\\ud83d']) {
    const answer = await licence('external_ref', value)
    expect(answer.status, value).toBe(422)
    expect(answer.body.errors.map(({ pointer }) => pointer)).toEqual(['/external_ref'])
    for (const path of ['/v1/apps', '/v1/api-keys']) {
      const named = await gateway.api.post(path, { body: `{"name":"${value}","scopes":["read"]}` })
      expect(named.status).toBe(422)
    }
  }
  expect((await gateway.api.get(`/v1/apps/${appId}/licences?external_ref=%00`)).status).toBe(422)
})

test('null is the same as leaving a field out', async () => {
  const seen: unknown[] = []
  gateway.answers.licensing.issueLicence = async (request) => {
    const { restrictions, expiresOn } = request.fields!
    seen.push([restrictions, expiresOn, Buffer.from(request.bodyHash).toString('hex')])
    return { licence: { id: 'lic_1', status: 'active' } }
  }
  for (const more of [{}, { restrictions: null, expires_on: null }]) {
    const { status } = await gateway.api.post(`/v1/apps/${appId}/licences`, {
      headers: { 'idempotency-key': 'k' },
      body: { plan_id: planId, external_ref: 'c', ...more },
    })
    expect(status).toBe(201)
  }
  expect(seen[1]).toEqual(seen[0])
})

test('an empty PATCH changes nothing and answers 200', async () => {
  gateway.answers.catalog.updatePlan = async ({ mask, entitlements }) => {
    expect([mask?.paths, entitlements]).toEqual([[], undefined])
    return { id: planId, status: 'active' }
  }
  for (const body of [{}, { name: null, code: null, entitlements: null }]) {
    expect((await gateway.api.patch(`/v1/apps/${appId}/plans/${planId}`, { body })).status).toBe(200)
  }
})

test('if a body has a hundred thousand errors, the answer has the first hundred', async () => {
  const body = { name: 'x', code: 'x', entitlements: Array.from({ length: 100_000 }, () => 1) }
  const answer = await gateway.api.post<{ errors: unknown[] }>(`/v1/apps/${appId}/plans`, { body })
  expect(answer.status).toBe(422)
  expect(answer.body.errors).toHaveLength(100)
})

test('a body with a hundred thousand nested levels is refused like any invalid body', async () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  const answer = await gateway.api.post(`/v1/apps/${appId}/plans`, {
    body: `{"name":${deep},"code":"x","more":${deep}}`,
  })
  expect([400, 422]).toContain(answer.status)
})
