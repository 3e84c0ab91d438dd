import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { createTypedClient } from './client.ts'
import { LicensingApiError } from './errors.ts'
import type { ListPaths, PathsWith } from './operations.ts'

describe('a typed client', () => {
  it('fills in the path and the query, and sends the API key, the body and the Idempotency-Key', async () => {
    await using service = await givenService([{ status: 201, body: { id: 'lic_1', key: 'K' } }])
    const licence = await service.client.post('/v1/apps/{app_id}/licences', {
      path: { app_id: 'app/1' },
      body: { external_ref: 'c-1', plan_id: 'pln_1' },
      idempotencyKey: 'order-1',
    })
    expect(licence.id).toBe('lic_1')
    expect(service.requests).toEqual([
      {
        line: 'POST /v1/apps/app%2F1/licences',
        authorization: 'Bearer lsk_test',
        key: 'order-1',
        type: 'application/json',
        body: { external_ref: 'c-1', plan_id: 'pln_1' },
      },
    ])
  })

  it('has types for the request and the answer of each call', () => {
    const { client } = givenClient('http://127.0.0.1:9')
    type Issue = typeof client.post<'/v1/apps/{app_id}/licences'>
    type Given = Parameters<Issue>[1]
    const path = { app_id: 'app_1' }
    const body = { external_ref: 'c-1', plan_id: 'pln_1' }
    expectTypeOf({ path, body, idempotencyKey: 'k' }).toExtend<Given>()
    expectTypeOf({ path, body }).not.toExtend<Given>()
    expectTypeOf({ path, body: { external_ref: 'c-1' }, idempotencyKey: 'k' }).not.toExtend<Given>()
    expectTypeOf({ body, idempotencyKey: 'k' }).not.toExtend<Given>()
    type Revoked = Parameters<typeof client.post<'/v1/licences/{licence_id}/revoke'>>[1]
    expectTypeOf({ path: { licence_id: 'lic_1' } }).toExtend<Revoked>()
    expectTypeOf({ path: { licence_id: 'lic_1' }, idempotencyKey: 'k' }).toExtend<Revoked>()
    expectTypeOf({ idempotencyKey: 'k' }).not.toExtend<Parameters<typeof client.get<'/v1/account'>>[1]>()
    expectTypeOf<Awaited<ReturnType<Issue>>>().toEqualTypeOf<{ id: string; key: string }>()
    expectTypeOf<PathsWith<Paths, 'get'>>().toEqualTypeOf<'/v1/account' | '/v1/apps/{app_id}/licences'>()
    expectTypeOf<[]>().toExtend<ArgumentsAfterPath<typeof client.get<'/v1/account'>>>()
    expectTypeOf<[]>().not.toExtend<ArgumentsAfterPath<Issue>>()
    expectTypeOf<ListPaths<Paths>>().toEqualTypeOf<'/v1/apps/{app_id}/licences'>()
  })

  it('returns undefined for an answer without a body', async () => {
    await using service = await givenService([{ status: 204 }])
    const answer = await service.client.delete('/v1/api-keys/{id}', { path: { id: 'key_1' } })
    expect(answer).toBeUndefined()
    expect(service.requests[0]).toMatchObject({
      line: 'DELETE /v1/api-keys/key_1',
      type: undefined,
      body: null,
    })
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
    const rows = service.client.rows('/v1/apps/{app_id}/licences', {
      path: { app_id: 'app_1' },
      query: { status: 'active', limit: 2 },
    })
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

  const verb = { path: { licence_id: 'lic_1' } }
  const issue = { path: { app_id: 'app_1' }, body: { external_ref: 'c', plan_id: 'p' }, idempotencyKey: 'k' }

  it('is made after a 429 for every call', async () => {
    await using service = await givenService([busy, busy, good])
    await service.client.post('/v1/licences/{licence_id}/revoke', verb)
    expect(service.requests).toHaveLength(3)
  })

  it.each(['a 503', 'a connection that was cut'])(
    'is made after %s if a repetition has no second effect',
    async (what) => {
      const failure = what === 'a 503' ? unavailable : null
      await using service = await givenService([failure, good, failure, good])
      await service.client.get('/v1/account')
      await service.client.post('/v1/apps/{app_id}/licences', issue)
      expect(service.requests.map(({ key }) => key)).toEqual([undefined, undefined, 'k', 'k'])
    },
  )

  it.each(['a 503', 'a connection that was cut'])(
    'is made for every POST after %s: each call has a key, which all its tries send',
    async (what) => {
      const failure = what === 'a 503' ? unavailable : null
      await using service = await givenService([failure, failure, good, good, failure, good])
      await service.client.post('/v1/licences/{licence_id}/revoke', verb)
      await service.client.post('/v1/licences/{licence_id}/revoke', verb)
      await service.client.post('/v1/licences/{licence_id}/revoke', { ...verb, idempotencyKey: 'mine' })
      const keys = service.requests.map(({ key }) => key)
      const [first, , , second] = keys
      expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(second).not.toBe(first)
      expect(keys).toEqual([first, first, first, second, 'mine', 'mine'])
    },
  )

  it.each([
    ['unavailable', unavailable],
    ['unreachable', null],
  ])('is left to the caller if the call may have had an effect: %s', async (code, failure) => {
    await using service = await givenService([failure, good])
    await expect(service.client.delete('/v1/api-keys/{id}', { path: { id: 'key_1' } })).rejects.toMatchObject(
      {
        code,
      },
    )
    expect(service.requests).toMatchObject([{ key: undefined }])
  })

  it('ends after the configured number of tries', async () => {
    await using service = await givenService([unavailable, unavailable, unavailable], { retries: 1 })
    await expect(service.client.get('/v1/account')).rejects.toMatchObject({ status: 503 })
    expect(service.requests).toHaveLength(2)
  })

  it('ends when the caller aborts it', async () => {
    await using service = await givenService([{ ...unavailable, headers: { 'retry-after': '30' } }])
    const signal = AbortSignal.timeout(100)
    await expect(service.client.get('/v1/account', { signal })).rejects.toMatchObject({
      name: 'TimeoutError',
    })
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

/** A few paths in the form that the generator gives them. */
interface Paths {
  '/v1/account': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    get: {
      parameters: { query?: never; header?: never; path?: never; cookie?: never }
      requestBody?: never
      responses: { 200: { content: { 'application/json': { id: string } } } }
    }
    post?: never
  }
  '/v1/apps/{app_id}/licences': {
    get: {
      parameters: { query?: { status?: string; limit?: number }; header?: never; path: { app_id: string } }
      requestBody?: never
      responses: {
        200: { content: { 'application/json': { data: { id: string }[]; next_cursor: string | null } } }
      }
    }
    post: {
      parameters: { query?: never; header: { 'idempotency-key': string }; path: { app_id: string } }
      requestBody: { content: { 'application/json': { external_ref: string; plan_id: string } } }
      responses: {
        201: { content: { 'application/json': { id: string; key: string } } }
        422: { content: { 'application/problem+json': { code: string } } }
      }
    }
  }
  '/v1/licences/{licence_id}/revoke': {
    get?: never
    post: {
      parameters: { query?: never; header?: { 'Idempotency-Key'?: string }; path: { licence_id: string } }
      requestBody?: never
      responses: { 200: { content: { 'application/json': { id: string } } } }
    }
  }
  '/v1/api-keys/{id}': {
    delete: {
      parameters: { query?: never; header?: never; path: { id: string } }
      requestBody?: never
      responses: { 204: { content?: never } }
    }
  }
}

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

function givenClient(baseUrl: string, options: { retries?: number; timeoutMs?: number } = {}) {
  return { client: createTypedClient<Paths>({ baseUrl, apiKey: 'lsk_test', ...options }) }
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
    ...givenClient(`http://127.0.0.1:${port}/`, options),
    requests,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
