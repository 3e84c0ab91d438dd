import type { ApiAnswer, ApiRequest } from '@licensing/test-support/api-client'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'

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
  restrictions: { domains?: string[]; max_activations?: number; max_seats?: number } | null
  expires_on: string | null
  created_at: string
  updated_at: string
  status_reason: string | null
}

export interface Page<Row> {
  data: Row[]
  next_cursor: string | null
}

export interface Problem {
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

/** An application of the stack's account, with functions for the vendor's calls. */
export type Vendor = Awaited<ReturnType<typeof givenVendor>>

export async function givenVendor({ api }: Pick<Stack, 'api'>, name = 'Studio') {
  const made = await api.post<{ id: string; root_key: string }>('/v1/apps', { body: { name } })
  expect(made.status).toBe(201)
  const app = `/v1/apps/${made.body.id}`
  const define = async (key: string, kind: 'feature' | 'limit', value?: string) => {
    const body = { key, kind, ...(value !== undefined && { default: value }) }
    return created(await api.post<{ id: string; key: string }>(`${app}/entitlement-defs`, { body }))
  }
  const plan = async (fields: Record<string, unknown> = {}) =>
    created(
      await api.post<Plan>(`${app}/plans`, { body: { name: 'Pro', code: `p-${randomUUID()}`, ...fields } }),
    )
  const issue = async (planId: string, fields: Record<string, unknown> = {}) =>
    created(
      await api.post<Licence>(`${app}/licences`, {
        headers: { 'idempotency-key': randomUUID() },
        body: { external_ref: `customer-${randomUUID()}`, plan_id: planId, ...fields },
      }),
    )
  const verb = (name: string, licenceId: string) =>
    api.post<Licence & Problem>(`/v1/licences/${licenceId}/${name}`)
  const activate = (licence: { key: string }, fields: Record<string, unknown> = {}) =>
    api.post<{ activation_id: string; token: string; expires_at: string }>('/v1/activations', {
      key: null,
      body: {
        licence_key: licence.key,
        fingerprint: randomUUID(),
        host: 'a.example.com',
        product_version: '1.0',
        ...fields,
      },
    })
  return { api, appId: made.body.id, rootKey: made.body.root_key, app, define, plan, issue, verb, activate }
}

function created<Body>(answer: ApiAnswer<Body>): Body {
  expect(answer.status, JSON.stringify(answer.body)).toBe(201)
  return answer.body
}

/** Expects an answer to be this problem document, in the format of decisions.md, section 1. */
export function expectProblem(answer: ApiAnswer<unknown>, status: number, code: string): Problem {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  const problem = answer.body as Problem
  expect(problem).toMatchObject({ type: `/errors/${code}`, status, code })
  expect(problem.request_id).toBe(answer.headers.get('x-request-id'))
  expect(problem.detail).not.toBe('')
  return problem
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
