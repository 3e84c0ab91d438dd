import { LicenceClient } from '@licensing/sdk'
import type { LicenceClientOptions } from '@licensing/sdk'
import type { ApiAnswer, ApiRequest } from '@licensing/test-support/api-client'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { sharedStack } from '@licensing/test-support/shared-stack'
import { startStack } from '@licensing/test-support/stack'
import type { Stack, StackOptions } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomUUID } from 'node:crypto'
import { afterAll, expect } from 'vitest'

export interface Plan {
  id: string
  name: string
  code: string
  status: string
  active_licences: number
  entitlements: { entitlement_def_id: string; value: string }[]
}

export interface Licence {
  id: string
  key: string
  status: string
  plan_id: string
  application_id: string
  external_ref: string
  restrictions: object | null
  expires_on: string | null
  created_at: string
  updated_at: string
  status_reason: string | null
  metadata: Record<string, string>
  updates_until: string | null
  trial: boolean
}

interface Detail extends Licence {
  entitlements: { key: string; kind: string; value: string }[]
  activations: { id: string; fingerprint: string; lease_ends_at: string | null }[]
  activations_total: number
  leases_in_use: number
  call_home: { host: string; product_version: string; seen_at: string }[]
  allowed: string[]
  overrides: { key: string; value: string }[]
  effective: { key: string; kind: string; value: string; from: string }[]
  plan_drift: object[]
}

interface HistoryEntry {
  at: string
  type: string
  from: string | null
  to: string
  actor: string
  cause: string | null
  changes: Record<string, { from: unknown; to: unknown }> | null
}

/** The answer of an activation and of a refresh. */
export interface Grant {
  activation_id: string
  licence_id: string
  token: string
  expires_at: string
  refresh_after: string
  lease_ends_at: string | null
}

export interface Page<Row> {
  data: Row[]
  next_cursor: string | null
}

interface Problem {
  type: string
  title: string
  status: number
  code: string
  detail: string
  request_id: string
  current?: string
  allowed?: string[]
  errors?: { pointer: string; message: string }[]
}

export const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
export const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
export const dayMs = 86_400_000

/** An id that does not exist. */
export const unknownId = (prefix: string) => `${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`

/** The stack of this test file: the shared one, or with options its own. */
export async function givenStack(options?: StackOptions): Promise<Stack> {
  return untilEnd(await (options ? startStack(options) : sharedStack()))
}

export const givenReceiver = async () => untilEnd(await startHttpsReceiver())

export const givenFolder = async () => untilEnd(await makeTemporaryFolder())

/** Disposes of an object after the tests of this file. */
export function untilEnd<Resource extends AsyncDisposable>(resource: Resource): Resource {
  afterAll(() => resource[Symbol.asyncDispose]())
  return resource
}

/** An application of the stack's account, with functions for the calls of its vendor and its products. */
export type Vendor = Awaited<ReturnType<typeof givenVendor>>

export async function givenVendor({ api, gatewayUrl }: Pick<Stack, 'api' | 'gatewayUrl'>, name = 'Studio') {
  const made = await api.post<{ id: string; root_key: string }>('/v1/apps', { body: { name } })
  const { id: appId, root_key: rootKey } = created(made)
  const app = `/v1/apps/${appId}`
  return {
    api,
    appId,
    rootKey,
    app,
    define: async (key: string, kind: 'feature' | 'limit', value?: string) => {
      const body = { key, kind, ...(value !== undefined && { default: value }) }
      return created(await api.post<{ id: string; key: string }>(`${app}/entitlement-defs`, { body }))
    },
    plan: async (fields: Record<string, unknown> = {}) =>
      created(
        await api.post<Plan>(`${app}/plans`, { body: { name: 'Pro', code: `p-${randomUUID()}`, ...fields } }),
      ),
    issue: async (planId: string, fields: Record<string, unknown> = {}) =>
      created(
        await api.post<Licence>(`${app}/licences`, {
          headers: { 'idempotency-key': randomUUID() },
          body: { external_ref: `customer-${randomUUID()}`, plan_id: planId, ...fields },
        }),
      ),
    /** Another API key of the account. */
    keyWith: async (fields: object) => {
      const body = { name: 'another', ...fields }
      return created(await api.post<{ id: string; name: string; key: string }>('/v1/api-keys', { body }))
    },
    verb: (verbName: string, licenceId: string) =>
      api.post<Licence & Problem>(`/v1/licences/${licenceId}/${verbName}`),
    patch: (licenceId: string, body: unknown) => api.patch<Licence>(`/v1/licences/${licenceId}`, { body }),
    detail: async (licenceId: string) => (await api.get<Detail>(`/v1/licences/${licenceId}`)).body,
    history: (licenceId: string) => allRows<HistoryEntry>(api, `/v1/licences/${licenceId}/history`),
    licences: (query = '') => allRows<Licence>(api, `${app}/licences${query}`),
    activate: (licence: { key: string }, fields: Record<string, unknown> = {}) => {
      const body = { licence_key: licence.key, fingerprint: randomUUID(), ...installed, ...fields }
      return api.post<Grant & Problem>('/v1/activations', { key: null, body })
    },
    refresh: ({ activation_id: id, token }: OfActivation, fields: Record<string, unknown> = {}) =>
      api.post<Grant & Problem>(`/v1/activations/${id}/refresh`, {
        key: token,
        body: { ...installed, ...fields },
      }),
    callHome: ({ activation_id: id, token }: OfActivation, fields: Record<string, unknown> = {}) =>
      api.post(`/v1/activations/${id}/call-home`, { key: token, body: { ...installed, ...fields } }),
    deactivate: ({ activation_id: id, token }: OfActivation) =>
      api.delete(`/v1/activations/${id}`, { key: token }),
    /** The SDK in a product. It does nothing in the background. */
    install: (options: Partial<LicenceClientOptions> = {}) =>
      new LicenceClient({
        baseUrl: gatewayUrl,
        appId,
        rootKey,
        fingerprint: randomUUID(),
        host: installed.host,
        productVersion: installed.product_version,
        background: false,
        ...options,
      }),
  }
}

export const installed = { host: 'build-7.example.com', product_version: '4.2.0' }

type OfActivation = Pick<Grant, 'activation_id'> & { token: string | null }

function created<Body>(answer: ApiAnswer<Body>): Body {
  expectStatus(answer, 201)
  return answer.body
}

export function expectStatus(answer: ApiAnswer<unknown>, status: number): void {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
}

/** Expects an answer to be this problem document, in the format of decisions.md, section 1. */
export function expectProblem(answer: ApiAnswer<unknown>, status: number, code: string): Problem {
  expectStatus(answer, status)
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  const problem = answer.body as Problem
  expect(problem).toMatchObject({ type: `/errors/${code}`, status, code })
  expect(problem.request_id).toBe(answer.headers.get('x-request-id'))
  expect(problem.detail).not.toBe('')
  return problem
}

export function expectNotFound(answer: ApiAnswer<unknown>): void {
  expectProblem(answer, 404, 'not_found')
}

/** Expects a product to be refused for this reason. */
export function expectRefused(answer: ApiAnswer<unknown>, reason: string): void {
  expect(expectProblem(answer, 403, 'licence_refused')).toMatchObject({ reason })
}

/** Expects an answer to be `validation_failed` with these fields. */
export function expectInvalid(answer: ApiAnswer<unknown>, ...pointers: string[]): void {
  const { errors } = expectProblem(answer, 422, 'validation_failed')
  expect(new Set(errors?.map(({ pointer }) => pointer))).toEqual(new Set(pointers))
}

/** All rows of a list, page by page. */
export async function allRows<Row>(
  api: Pick<Stack['api'], 'get'>,
  path: string,
  limit = 200,
  request: ApiRequest = {},
): Promise<Row[]> {
  const rows: Row[] = []
  let cursor: string | null = null
  do {
    const query: string = `limit=${limit}${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
    const page = await api.get<Page<Row>>(`${path}${path.includes('?') ? '&' : '?'}${query}`, request)
    expect(page.status).toBe(200)
    rows.push(...page.body.data)
    cursor = page.body.next_cursor
  } while (cursor !== null)
  return rows
}

/** The claims of a token, without verification. Other tests verify signatures. */
export function claimsOf(token: string): Record<string, unknown> & { exp: number; iat: number } {
  const [, payload = ''] = token.split('.')
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as ReturnType<typeof claimsOf>
}
