import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { hashOf, readBackendDocument } from '../scripts/backend-document.ts'
import { createLicensingBackend, LicensingApiError, newIdempotencyKey, type Schemas } from './backend.ts'

const issue = '/v1/apps/{app_id}/licences'
const order = {
  path: { app_id: 'app_1' },
  body: { external_ref: 'c-1', plan_id: 'pln_1' },
  idempotencyKey: 'k',
}
const revoke = '/v1/licences/{licence_id}/revoke'
const verb = { path: { licence_id: 'lic_1' } }

describe('the client for vendors’ backends', () => {
  it('has the types of the gateway’s current document: if not, run scripts/generate-backend.ts', () => {
    const types = readFileSync(new URL('backend/gen/api.ts', import.meta.url), 'utf8')
    expect(types.slice(0, types.indexOf('\n'))).toContain(hashOf(readBackendDocument()))
  })

  it('has a type for the request and the answer of each operation, and none that only a product may call', () => {
    const client = createLicensingBackend({ baseUrl: 'http://127.0.0.1:9', apiKey: 'lsk_test' })
    type Posts = Parameters<typeof client.post>[0]
    expectTypeOf<typeof revoke>().toExtend<Posts>()
    expectTypeOf<'/v1/activations'>().not.toExtend<Posts>()
    expectTypeOf<'/v1/account'>().not.toExtend<Posts>()

    type Issue = Parameters<typeof client.post<typeof issue>>[1]
    const { path, body, idempotencyKey } = order
    expectTypeOf(order).toExtend<Issue>()
    expectTypeOf({ path, body }).not.toExtend<Issue>()
    expectTypeOf({ path, body: { external_ref: 'c-1' }, idempotencyKey }).not.toExtend<Issue>()
    expectTypeOf({ body, idempotencyKey }).not.toExtend<Issue>()
    expectTypeOf(client.post<typeof issue>).returns.resolves.toEqualTypeOf<Schemas['Licence']>()
    type Revoke = Parameters<typeof client.post<typeof revoke>>[1]
    expectTypeOf(verb).toExtend<Revoke>()
    expectTypeOf({ ...verb, idempotencyKey }).toExtend<Revoke>()
    expectTypeOf({ idempotencyKey }).not.toExtend<Parameters<typeof client.get<'/v1/account'>>[1]>()
    expectTypeOf<[]>().toExtend<ArgumentsAfterPath<typeof client.get<'/v1/account'>>>()
    expectTypeOf<[]>().not.toExtend<ArgumentsAfterPath<typeof client.post<typeof issue>>>()
  })

  it('has a type for the rows of every list, and for every other answer', () => {
    const client = createLicensingBackend({ baseUrl: 'http://127.0.0.1:9', apiKey: 'lsk_test' })
    type Lists = Parameters<typeof client.rows>[0]
    expectTypeOf<
      | '/v1/licences/{licence_id}/activations'
      | '/v1/licences/{licence_id}/history'
      | '/v1/apps/{app_id}/checkout-sessions'
      | '/v1/apps/{app_id}/sale-events'
      | '/v1/apps/{app_id}/payments'
      | '/v1/apps/{app_id}/refunds'
    >().toExtend<Lists>()
    expectTypeOf<'/v1/account'>().not.toExtend<Lists>()
    expectTypeOf(client.rows<typeof issue>).returns.toExtend<AsyncGenerator<Schemas['Licence']>>()
    expectTypeOf(client.get<'/v1/apps/{app_id}/search'>).returns.resolves.toExtend<{
      data: { matched: string; licence: Schemas['Licence'] }[]
    }>()
    expectTypeOf(client.get<'/v1/apps/{app_id}/metrics'>).returns.resolves.toHaveProperty('points')
    expectTypeOf(client.get<'/v1/api-keys/self'>).returns.resolves.toExtend<{ account_id: string }>()
  })

  it('creates a different Idempotency-Key each time, of a length that the service accepts', () => {
    const keys = Array.from({ length: 100 }, newIdempotencyKey)
    expect(new Set(keys).size).toBe(100)
    expect(keys.every((key) => key.length > 0 && key.length <= 255)).toBe(true)
  })

  it('fills in the path and the query, and sends the API key, the body and the Idempotency-Key', async () => {
    await using service = await givenService([{ status: 201, body: { id: 'lic_1', key: 'K' } }])
    const licence = await service.client.post(issue, { ...order, path: { app_id: 'app/1' } })
    expect(licence.id).toBe('lic_1')
    expect(service.requests).toEqual([
      {
        line: 'POST /v1/apps/app%2F1/licences',
        authorization: 'Bearer lsk_test',
        key: 'k',
        type: 'application/json',
        body: order.body,
      },
    ])
  })

  it('returns undefined for an answer without a body', async () => {
    await using service = await givenService([{ status: 204 }])
    const answer = await service.client.delete('/v1/api-keys/{key_id}', { path: { key_id: 'key_1' } })
    expect(answer).toBeUndefined()
    expect(service.requests).toMatchObject([
      { line: 'DELETE /v1/api-keys/key_1', type: undefined, body: null },
    ])
  })

  it('throws the error that the service reports', async () => {
    const problem = {
      code: 'validation_failed',
      detail: 'plan_id is unknown',
      request_id: 'req-1',
      errors: [{ pointer: '/plan_id', message: 'unknown' }],
    }
    await using service = await givenService([{ status: 422, body: problem }])
    const error = await service.client.get('/v1/account').catch((error: unknown) => error)
    expect(error).toBeInstanceOf(LicensingApiError)
    expect(error).toMatchObject({
      name: 'LicensingApiError',
      message: 'plan_id is unknown',
      code: 'validation_failed',
      status: 422,
      requestId: 'req-1',
      errors: problem.errors,
      problem,
    })
    expect(service.requests).toHaveLength(1)
  })

  it.each([
    ['an answer that is not JSON', { status: 200, text: '<html>' }],
    ['an error that is not the service’s', { status: 404, text: 'not here' }],
    ['a redirect', { status: 302, headers: { location: 'https://example.net/' } }],
  ])('throws unexpected_answer for %s', async (_what, reply) => {
    await using service = await givenService([reply])
    await expect(service.client.get('/v1/account')).rejects.toMatchObject({ code: 'unexpected_answer' })
  })

  it('returns every row of a list, and reads one page at a time', async () => {
    await using service = await givenService([
      { status: 200, body: { data: [{ id: 'lic_3' }, { id: 'lic_2' }], next_cursor: 'after-2' } },
      { status: 200, body: { data: [{ id: 'lic_1' }], next_cursor: null } },
    ])
    const ids: string[] = []
    const { path } = order
    const rows = service.client.rows(issue, { path, query: { status: 'active', limit: 2 } })
    for await (const { id } of rows) ids.push(id)
    expect(ids).toEqual(['lic_3', 'lic_2', 'lic_1'])
    expect(service.requests.map(({ line }) => line)).toEqual([
      'GET /v1/apps/app_1/licences?status=active&limit=2',
      'GET /v1/apps/app_1/licences?status=active&limit=2&cursor=after-2',
    ])
  })
})

describe('trying again', () => {
  const busy = { status: 429, headers: { 'retry-after': '0' } }
  const unavailable = { status: 503, headers: { 'retry-after': '0' }, body: { code: 'unavailable' } }
  const good = { status: 200, body: { id: 'lic_1', key: 'K' } }
  const failures = [
    { failure: 'unavailable', reply: unavailable },
    { failure: 'unreachable', reply: null },
  ]

  it('is made after a 429 for every call', async () => {
    await using service = await givenService([busy, busy, good])
    await service.client.post(revoke, verb)
    expect(service.requests).toHaveLength(3)
  })

  it.each(failures)('is made if a repetition has no second effect: $failure', async ({ reply }) => {
    await using service = await givenService([reply, good, reply, good])
    await service.client.get('/v1/account')
    await service.client.post(issue, order)
    expect(service.requests.map(({ key }) => key)).toEqual([undefined, undefined, 'k', 'k'])
  })

  it.each(failures)(
    'is made for every POST, because each call has a key, which all its tries send: $failure',
    async ({ reply }) => {
      await using service = await givenService([reply, reply, good, good])
      await service.client.post(revoke, verb)
      await service.client.post(revoke, verb)
      const [first, ...others] = service.requests.map(({ key }) => key)
      expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(others).toEqual([first, first, expect.not.stringMatching(String(first))])
    },
  )

  it.each(failures)(
    'is left to the caller if the call may have had an effect: $failure',
    async ({ failure, reply }) => {
      await using service = await givenService([reply, good])
      const deleted = service.client.delete('/v1/api-keys/{key_id}', { path: { key_id: 'key_1' } })
      await expect(deleted).rejects.toMatchObject({ code: failure })
      expect(service.requests).toMatchObject([{ key: undefined }])
    },
  )

  it.each(['Sat, 01 Feb 2020 10:00:01 GMT', 'Saturday, 01-Feb-20 10:00:01 GMT', 'Sat Feb  1 10:00:01 2020'])(
    'waits until the date of a Retry-After, by the clock of the server: %s',
    async (until) => {
      const headers = { date: 'Sat, 01 Feb 2020 10:00:00 GMT', 'retry-after': until }
      await using service = await givenService([{ ...unavailable, headers }, good])
      const start = performance.now()
      await service.client.get('/v1/account')
      // Without a valid header, the first wait is at most half a second.
      expect(performance.now() - start).toBeGreaterThan(950)
    },
  )

  it('ends after the configured number of tries', async () => {
    await using service = await givenService([unavailable, unavailable, unavailable], { retries: 1 })
    await expect(service.client.get('/v1/account')).rejects.toMatchObject({ status: 503 })
    expect(service.requests).toHaveLength(2)
  })

  it('ends when the caller aborts it', async () => {
    await using service = await givenService([{ ...unavailable, headers: { 'retry-after': '30' } }])
    const aborted = service.client.get('/v1/account', { signal: AbortSignal.timeout(100) })
    await expect(aborted).rejects.toMatchObject({ name: 'TimeoutError' })
  })

  it('gives up on a try that takes too long', async () => {
    await using service = await givenService(['silence', 'silence'], { timeoutMs: 500, retries: 1 })
    await expect(service.client.get('/v1/account')).rejects.toMatchObject({ code: 'timeout', status: 0 })
    expect(service.requests).toHaveLength(2)
  })
})

type ArgumentsAfterPath<Call> = Call extends (path: never, ...others: infer Others) => unknown
  ? Others
  : never

/** Null cuts the connection; silence keeps it open. */
type Reply =
  { status: number; body?: unknown; text?: string; headers?: Record<string, string> } | 'silence' | null

interface SeenRequest {
  readonly line: string
  readonly authorization: string | undefined
  readonly key: string | string[] | undefined
  readonly type: string | undefined
  readonly body: unknown
}

async function givenService(
  replies: readonly Reply[],
  options: { retries?: number; timeoutMs?: number } = {},
) {
  const requests: SeenRequest[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { authorization, 'content-type': type, 'idempotency-key': key } = request.headers
      const reply = replies[requests.length]
      const line = `${request.method} ${request.url}`
      requests.push({ line, authorization, key, type, body: body === '' ? null : JSON.parse(body) })
      if (reply === 'silence') return
      if (!reply) response.destroy()
      else response.writeHead(reply.status, reply.headers).end(reply.text ?? JSON.stringify(reply.body) ?? '')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    client: createLicensingBackend({ baseUrl: `http://127.0.0.1:${port}/`, apiKey: 'lsk_test', ...options }),
    requests,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
