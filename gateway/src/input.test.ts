import { expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { ServiceError } from '@licensing/grpc/errors'
import { openApiDocument } from './openapi/document.ts'
import { routes } from './routes/table.ts'
import { gatewayOfFile, pathOf } from '../test/gateway.ts'

interface Problem {
  code: string
  errors?: { pointer: string; message: string }[]
}

interface Operation {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  parameters: { name: string; in: string; schema: { format?: string } }[]
  /** A body that the route accepts. */
  body?: object
}

const gateway = await gatewayOfFile()

const operations: Operation[] = Object.entries(openApiDocument(routes).paths).flatMap(([template, methods]) =>
  Object.entries(methods).map(([method, { parameters = [], requestBody }]) => {
    const { content } = (requestBody ?? {}) as { content?: Record<string, { example?: object }> }
    return {
      method: method as Operation['method'],
      path: pathOf(template),
      parameters: parameters as Operation['parameters'],
      ...(content && { body: content['application/json']?.example ?? {} }),
    }
  }),
)
const rows = operations.map((operation) => [`${operation.method} ${operation.path}`, operation] as const)
const changes = rows.filter(([, { method }]) => method !== 'get')
const parametersOf = ({ parameters }: Operation) => parameters.filter((each) => each.in === 'query')

function send(operation: Operation, query = '', more: { body?: unknown; encoding?: string } = {}) {
  const { method, path, body } = operation
  return gateway.api[method]<Problem>(`${path}${query}`, {
    body: more.body ?? body,
    headers: {
      'idempotency-key': 'k',
      'stripe-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}`,
      ...(more.encoding !== undefined && { 'content-encoding': more.encoding }),
    },
  })
}

test.each(rows)('%s refuses and names every unknown query parameter', async (_name, each) => {
  const before = gateway.calls.length
  const answer = await send(each, '?no_such_parameter=1&__proto__=2&a%2Fb=3&Limit=4&limit%5B%5D=5')
  expect(answer.status).toBe(422)
  expect(answer.body.code).toBe('validation_failed')
  for (const pointer of ['/no_such_parameter', '/__proto__', '/a~1b', '/Limit', '/limit[]']) {
    expect(answer.body.errors).toContainEqual({
      pointer,
      message: expect.stringMatching(/^unknown query parameter; known: /) as string,
    })
  }
  // Nothing was changed: services were only asked whether key, application and resource exist.
  const asked = gateway.calls
    .slice(before)
    .filter((name) => !/^(authenticate|find|get|check|list)/.test(name))
  expect(asked).toEqual([])
})

test.each(rows.filter(([, each]) => parametersOf(each).length > 0))(
  '%s refuses a query parameter that is sent twice',
  async (_name, each) => {
    for (const { name } of parametersOf(each)) {
      const answer = await send(each, `?${name}=1&${name}=1`)
      expect(answer.status, name).toBe(422)
      expect(answer.body.errors).toContainEqual({ pointer: `/${name}`, message: 'must be sent once' })
    }
  },
)

test.each(changes)('%s refuses a compressed body with 415', async (_name, each) => {
  const plain = JSON.stringify(each.body ?? {})
  for (const encoding of ['gzip', 'GZIP', 'br', 'identity, gzip', 'gzip, identity', 'x']) {
    const answer = await send(each, '', { body: gzipSync(plain), encoding })
    expect(answer.status, encoding).toBe(415)
    expect(answer.body.code).toBe('unsupported_media_type')
  }
  const identity = await send(each, '', { body: plain, encoding: 'Identity' })
  expect(identity.status).not.toBe(415)
})

test('a Content-Encoding without a body is ignored', async () => {
  gateway.answers.catalog.getAccount = async ({ accountId: id }) => ({ id, name: 'Acme' })
  const answer = await gateway.api.get('/v1/account', { headers: { 'content-encoding': 'gzip' } })
  expect(answer.status).toBe(200)
})

test('a missing resource is refused before a compressed body and before an unknown parameter', async () => {
  const gone = async () => {
    throw new ServiceError('not_found', 'there is no such licence')
  }
  gateway.answers.licensing.getLicence = gone
  const licence = '/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const headers = { 'content-encoding': 'gzip' }
  expect((await gateway.api.get(`${licence}?x=1`)).status).toBe(404)
  expect((await gateway.api.get(`${licence}/history?x=1`)).status).toBe(404)
  expect((await gateway.api.post(`${licence}/suspend?x=1`)).status).toBe(404)
  expect((await gateway.api.patch(licence, { body: gzipSync('{}'), headers })).status).toBe(404)
  expect((await gateway.api.get(`${licence}?x=1`, { key: null })).status).toBe(401)
})

test.each(rows)('%s accepts lower-case t and z in every timestamp', async (_name, each) => {
  const isTimestamp = /"(\d{4}-\d{2}-\d{2})T([\d:.]+)Z"/g
  const body = each.body && JSON.stringify(each.body).replaceAll(isTimestamp, '"$1t$2z"')
  const dates = parametersOf(each).filter(
    ({ name, schema }) => schema.format === 'date-time' || name === 'last_seen',
  )
  for (const query of ['', ...dates.map(({ name }) => `?${name}=2026-11-01t12:00:00.5z`)]) {
    const { errors = [] } = (await send(each, query, { body })).body ?? {}
    expect(errors.filter(({ message }) => message.includes('timestamp'))).toEqual([])
  }
})
