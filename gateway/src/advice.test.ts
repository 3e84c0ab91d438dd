import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { validate } from './http/validate.ts'
import { bodySchema } from './route.ts'
import { routes } from './routes/table.ts'
import { appId, gatewayOfFile } from '../test/gateway.ts'

const gateway = await gatewayOfFile()
gateway.answers.catalog.getPlan = async () => ({})
gateway.answers.licensing.getLicence = async () => ({})

const plans = `/v1/apps/${appId}/plans`

interface Problem {
  detail: string
  errors?: { pointer: string; message: string }[]
}

const detailOf = async (method: 'get' | 'post' | 'put', path: string, options: object = {}) =>
  (await gateway.api[method]<Problem>(path, options)).body.detail

test.each([
  [
    'a missing key',
    'get',
    plans,
    { key: null },
    'the API key is missing: send Authorization: Bearer <API key>',
  ],
  ['an unknown key', 'get', plans, { key: 'lsk_x' }, 'the API key is malformed, unknown or revoked'],
  ['the American spelling', 'get', '/v1/licenses/x', {}, 'there is no such route: write licence with c'],
  ['an unknown route', 'get', '/v1/plan', {}, 'there is no such route: /openapi.json lists all routes'],
  [
    'another method',
    'put',
    plans,
    {},
    'this path does not support PUT; it supports POST, GET, HEAD, OPTIONS',
  ],
  [
    'a licence key in place of an id',
    'get',
    '/v1/licences/7ZK2M-4QX9T-B1N8V-WC3HD-60RPF',
    {},
    'there is no such licence: its id is lic_ and 26 characters',
  ],
  [
    'a plan code in place of an id',
    'post',
    `/v1/apps/${appId}/licences`,
    { body: { external_ref: 'a', plan_id: 'pro' }, headers: { 'idempotency-key': 'k' } },
    '/plan_id: there is no such plan: its id is pln_ and 26 characters',
  ],
  ['broken JSON', 'post', plans, { body: '{\n"name": x}' }, 'the body is not JSON'],
  ['JSON that ends early', 'post', plans, { body: '{"name":1,}' }, 'the body is not JSON (line 1 column 11)'],
  [
    'an unknown field',
    'post',
    plans,
    { body: { name: 'Pro', code: 'pro', entitlement: [] } },
    '/entitlement: unknown field; known: name, code, metadata, trial_days, entitlements',
  ],
  [
    'a body of a request without one',
    'post',
    '/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab/suspend',
    { body: { reason: 'x' } },
    '/reason: unknown field; known: none',
  ],
  ['several fields', 'post', plans, { body: {} }, '/name: is required (and 1 more in `errors`)'],
] as const)('%s is refused with advice', async (_title, method, path, options, detail) => {
  expect(await detailOf(method, path, options)).toBe(detail)
})

test('the error for a missing scope names it and the scopes of the key', async () => {
  const key = gateway.keyWith(['read', 'issue'])
  expect(await detailOf('post', plans, { key, body: {} })).toBe(
    'this needs the scope admin; the API key has read, issue',
  )
})

test('the error for a rule that a service checks names the field', async () => {
  gateway.answers.catalog.createPlan = async () => {
    const errors = [{ pointer: '/entitlements/0/key', message: 'has no entitlement definition' }]
    throw new ServiceError('validation_failed', 'has no entitlement definition', { errors })
  }
  expect(await detailOf('post', plans, { body: { name: 'Pro', code: 'pro' } })).toBe(
    '/entitlements/0/key: has no entitlement definition',
  )
})

// Values that a caller may send by mistake.
const mistakes = [null, -1, 0, 1.5, 1e12, '', 'x', 'x'.repeat(5_000), true, [], [1], {}, { a: 1 }]
const fieldsOf = ({ body }: { body?: unknown }) =>
  Object.keys((body as { shape?: object } | undefined)?.shape ?? {})

test('no error has the default message of the validator', () => {
  const messages: string[] = []
  for (const route of routes) {
    for (const field of fieldsOf(route)) {
      for (const mistake of mistakes) {
        try {
          validate(bodySchema(route), { [field]: mistake }, 'body')
        } catch (error) {
          messages.push(...(error as ServiceError).errors.map(({ message }) => message))
        }
      }
    }
  }
  expect(messages.length).toBeGreaterThan(500)
  expect(messages.filter((message) => /^Invalid|^Too |expected|received/.test(message))).toEqual([])
})
