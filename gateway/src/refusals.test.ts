import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import { expect, test } from 'vitest'
import { appId, gatewayOfFile, otherAccountAppId, startGateway } from '../test/gateway.ts'
import { routes } from './routes/table.ts'

const gateway = await gatewayOfFile()
gateway.answers.catalog.getPlan = async ({ planId }) => {
  if (planId === planThere) return { id: planId, status: 'active' }
  throw new ServiceError('not_found', `there is no plan ${planId}`)
}
gateway.answers.catalog.updatePlan = async () => {
  throw new ServiceError('already_exists', 'the code is taken', {})
}

const planThere = 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab'
const planGone = 'pln_01k9zj3v8qe5ktw2m4x6r7n8ac'
const patch = (planId = planThere, app = appId) => `/v1/apps/${app}/plans/${planId}`
const tooMuch = JSON.stringify({ name: 'x'.repeat(1024 * 1024) })
const text = 'text/plain'
const json = 'application/json'

const foreign = patch(planGone, otherAccountAppId)
const narrow = gateway.keyWith(['read', 'issue'])
const key = gateway.apiKey

/** In the order of decisions.md, section 1. Each request breaks one rule and all later rules. */
const inOrder = [
  ['an unknown route', 'not_found', 'POST', `${patch()}/nowhere`, tooMuch, text],
  ['a method that the path does not have', 'method_not_allowed', 'PUT', foreign, tooMuch, text],
  ['a missing key', 'unauthenticated', 'PATCH', foreign, tooMuch, text],
  ['a scope', 'insufficient_scope', 'PATCH', foreign, tooMuch, text, narrow],
  ['an application of another account', 'not_found', 'PATCH', foreign, tooMuch, text, key],
  ['a plan that is not there', 'not_found', 'PATCH', patch(planGone), tooMuch, text, key],
  ['a media type', 'unsupported_media_type', 'PATCH', patch(), tooMuch, text, key],
  ['a size', 'payload_too_large', 'PATCH', patch(), tooMuch, json, key],
  ['what is not JSON', 'bad_request', 'PATCH', patch(), '{"name":1', json, key],
  ['an empty body', 'bad_request', 'PATCH', patch(), '', json, key],
  ['a shape', 'validation_failed', 'PATCH', patch(), '{"name":1}', json, key],
  ['a state', 'already_exists', 'PATCH', patch(), '{"code":"pro"}', json, key],
] as const

test.each(inOrder)(
  '%s is refused with %s before all errors that are later in the order',
  async (_title, code, method, path, body, type, key?) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method,
      body,
      headers: { 'content-type': type, ...(key && { authorization: `Bearer ${key}` }) },
    })
    const { http, title } = errorCatalogue[code]
    expect(response.status).toBe(http)
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    const problem = (await response.json()) as Record<string, unknown>
    expect(problem).toMatchObject({ type: `/errors/${code}`, title, status: http, code })
    expect(problem['detail']).toEqual(expect.any(String))
    expect(problem['request_id']).toBe(response.headers.get('x-request-id'))
    expect('errors' in problem).toBe(code === 'validation_failed')
    expect(response.headers.get('www-authenticate')).toBe(code === 'unauthenticated' ? 'Bearer' : null)
    if (code === 'method_not_allowed') expect(response.headers.get('allow')).toContain('PATCH')
  },
)

test('every change checks the resource in the path before the body', async () => {
  const changing = routes.filter(({ audience, method }) => audience === 'vendor' && method !== 'GET')
  for (const { method, path, lookUp } of changing) {
    const namesOne = path.replace('{app_id}', '').includes('{')
    expect(lookUp !== undefined, `${method} ${path}`).toBe(namesOne)
  }
})

test('a missing key or activation is refused before an invalid body', async () => {
  const there = 'act_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const older = 'act_01k9zj3v8qe5ktw2m4x6r7n8aa'
  gateway.answers.licensing.listActivations = async ({ beforeId, limit }) => {
    const activations = [there, older].filter((id) => id < beforeId).map((id) => ({ id }))
    return { activations: activations.slice(0, limit), hasMore: false }
  }
  gateway.answers.catalog.getApiKey = async ({ keyId }) => {
    throw new ServiceError('not_found', `there is no API key ${keyId}`)
  }
  const licence = '/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const status = async (path: string, body: string) => (await gateway.api.delete(path, { body })).status
  for (const body of ['{', '{"no_such_field":1}']) {
    expect(await status('/v1/api-keys/key_01k9zj3v8qe5ktw2m4x6r7n8ab', body)).toBe(404)
    expect(await status(`${licence}/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ac`, body)).toBe(404)
    for (const id of [there, older]) {
      expect(await status(`${licence}/activations/${id}`, body)).toBe(body === '{' ? 400 : 422)
    }
  }
})

test('a text that is not an id is answered like an unknown id, whatever its length and content', async () => {
  const ofLicence = planThere.replace('pln', 'lic')
  for (const id of [
    'x',
    'pln_',
    planThere.toUpperCase(),
    ofLicence,
    'a'.repeat(4_000),
    '%00',
    '%F0%9F%98%80',
  ]) {
    const answer = await gateway.api.get(patch(id))
    expect(answer.status, id).toBe(404)
    expect(answer.body, id).toMatchObject({ code: 'not_found' })
    expect((await gateway.api.get(patch(id), { key: null })).status, id).toBe(401)
  }
})

test('a path with invalid percent-encoding is answered like an unknown path', async () => {
  const answer = await gateway.api.get('/v1/apps/%zz/plans')
  expect(answer.status).toBe(404)
  expect(answer.body).toMatchObject({ code: 'not_found' })
  expect(answer.headers.get('x-request-id')).toBeTruthy()
  expect(answer.headers.get('ratelimit')).toBeTruthy()
})

test('the error of a service is sent with its code, detail and members; the text of any other error is not', async () => {
  const archive = async (error: Error) => {
    gateway.answers.catalog.archivePlan = () => Promise.reject(error)
    return gateway.api.post(`${patch()}/archive`)
  }
  const members = { current: 'retired', allowed: ['restore'] }
  const detail = 'plan is retired; restore it first'
  const conflict = await archive(new ServiceError('conflict', detail, { members }))
  expect(conflict.body).toEqual({
    type: '/errors/conflict',
    title: 'Conflict',
    status: 409,
    code: 'conflict',
    detail,
    ...members,
    request_id: conflict.headers.get('x-request-id'),
  })
  const internal = await archive(new Error('duplicate key value in 10.0.0.7:5432'))
  expect(internal.body).toMatchObject({
    status: 500,
    code: 'internal',
    detail: 'something failed on our side',
  })
  expect(JSON.stringify(internal.body)).not.toContain('10.0.0.7')
  const unavailable = await archive(new ServiceError('unavailable', 'the database is unavailable'))
  expect(unavailable).toMatchObject({ status: 503, body: { code: 'unavailable' } })
  expect(unavailable.headers.get('retry-after')).toMatch(/^\d+$/)
})

test('a token of another activation is refused before an invalid body, and counts as a wrong token', async () => {
  await using strict = await startGateway({ wrongKeysPerAddress: 2 })
  const activation = '/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const refresh = (token: string | null, body = '{') =>
    strict.api.post(`${activation}/refresh`, { key: token, body })
  strict.answers.products.checkActivation = async ({ token }) => {
    if (token === 'freed') throw new ServiceError('not_found', 'there is no such activation')
    if (token !== 'good') throw new ServiceError('unauthenticated', 'send this activation’s own token')
    return {}
  }
  expect((await refresh('good')).status).toBe(400)
  expect((await refresh('good', '{}')).status).toBe(422)
  expect((await refresh('freed', '{}')).status).toBe(404)
  const forged = await refresh('forged', '{}')
  expect(forged.status).toBe(401)
  expect(forged.headers.get('www-authenticate')).toBe('Bearer')
  expect((await refresh('forged', '{}')).status).toBe(401)
  expect((await refresh('forged', '{}')).status).toBe(429)
})

test('a forged token is refused before an activation id that is not an id', async () => {
  gateway.answers.products.deactivate = async ({ token }) => {
    if (token === 'forged') throw new ServiceError('unauthenticated', 'send this activation’s own token')
    throw new ServiceError('not_found', 'there is no such activation')
  }
  for (const id of ['act_01k9zj3v8qe5ktw2m4x6r7n8ab', 'act_', 'x', '%00']) {
    const free = async (key: string | null) =>
      (await gateway.api.delete(`/v1/activations/${id}`, { key })).status
    expect([await free(null), await free('forged'), await free('good')], id).toEqual([401, 401, 404])
  }
})
