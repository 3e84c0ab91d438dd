import { errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { takesIdempotencyKey } from '../route.ts'
import type { Route } from '../route.ts'

const declared = new WeakMap<Route, ReadonlySet<ErrorCode>>()

/** Whether a route's entry in the OpenAPI document names this code. */
export function declares(route: Route, code: ErrorCode): boolean {
  const known = declared.get(route) ?? new Set(errorsOf(route))
  declared.set(route, known)
  return known.has(code)
}

/** Every code that a route can answer with, by status: the codes of its kind of route and its own. */
export function errorsOf(route: Route): ErrorCode[] {
  const codes = new Set<ErrorCode>(route.errors).add('bad_request').add('validation_failed')
  if (route.audience === 'vendor') {
    codes.add('unauthenticated').add('insufficient_scope').add('origin_refused')
  }
  if (route.audience === 'activation' || route.audience === 'customer') codes.add('unauthenticated')
  if (route.path.includes('{')) codes.add('not_found')
  if (route.method !== 'GET') {
    codes.add('unsupported_media_type').add('payload_too_large')
  }
  if (takesIdempotencyKey(route)) codes.add('idempotency_mismatch').add('quota_exceeded')
  if (route.needsIdempotencyKey) codes.add('idempotency_key_required')
  if (route.audience !== 'processor') codes.add('account_moved')
  codes.add('rate_limited').add('internal').add('unavailable')
  return [...codes].toSorted((a, b) => errorCatalogue[a].http - errorCatalogue[b].http)
}
