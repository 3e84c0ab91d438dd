import { randomBytes } from 'node:crypto'
import type { Stack } from '@licensing/test-support/stack-shape'
import type { LoadRequest } from './load.ts'
import { withKey } from './vendor.ts'
import type { Installation } from './vendor.ts'

/** A kind of request for a load: the expected status, and a function that makes request number n. */
export type Calls = [status: number, next: (n: number) => LoadRequest]

interface Given {
  planId: string
  licenceId: string
  installations: Installation[]
}

/** Issues licences on a plan. */
export function issues(stack: Stack, planId: string): Calls {
  const headers = withKey(stack)
  return [
    201,
    () => ({
      method: 'POST',
      path: `/v1/apps/${stack.appId}/licences`,
      headers: { ...headers, 'idempotency-key': randomBytes(12).toString('hex') },
      body: JSON.stringify({ external_ref: 'customer-1', plan_id: planId }),
    }),
  ]
}

/** The most frequent calls of vendors and products. */
export function usualCalls(
  stack: Stack,
  { planId, licenceId, installations }: Given,
): Record<'issue' | 'detail' | 'refresh', Calls> {
  const headers = withKey(stack)
  return {
    issue: issues(stack, planId),
    detail: [200, () => ({ method: 'GET', path: `/v1/licences/${licenceId}`, headers })],
    refresh: [
      200,
      (n) => {
        const { id, token, body } = installations[n % installations.length]!
        const { host, product_version } = body
        return {
          method: 'POST',
          path: `/v1/activations/${id}/refresh`,
          headers: { ...headers, authorization: `Bearer ${token}` },
          body: JSON.stringify({ host, product_version }),
        }
      },
    ],
  }
}

/** Suspends all of these licences, then reactivates all, and so on. */
export function suspensions(stack: Stack, licenceIds: string[]): Calls {
  const headers = withKey(stack)
  const next = (n: number): LoadRequest => {
    const id = licenceIds[n % licenceIds.length]!
    const verb = Math.floor(n / licenceIds.length) % 2 === 0 ? 'suspend' : 'reactivate'
    return { method: 'POST', path: `/v1/licences/${id}/${verb}`, headers }
  }
  return [200, next]
}
