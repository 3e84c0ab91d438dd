import { createTypedClient, type TypedClient } from './backend/client.ts'
import type { components, paths } from './backend/gen/api.ts'
import type { BackendOptions } from './backend/request.ts'

/** The public API of the package for vendors' backends. */
export { LicensingApiError, type FieldProblem } from './backend/errors.ts'
export { newIdempotencyKey } from './backend/request.ts'
export type { BackendOptions } from './backend/request.ts'

/** The REST API with its types: see `createLicensingBackend`. */
export type LicensingBackend = TypedClient<paths>

/** The schemas of the API, such as `Schemas['Licence']`. */
export type Schemas = components['schemas']

/**
 * A client of the REST API for a vendor's backend: one function per method. Paths, parameters, bodies and answers are
 * typed by the OpenAPI document. Each call resolves to the body of the answer.
 *
 * A call that a rate limit refused is retried after the time in `Retry-After`. A `get`, `put` or `post` that got 503, no
 * connection or no answer in time is retried too: every `post` has an `Idempotency-Key`, a new one if you give none.
 *
 * @throws LicensingApiError (by rejecting) with the service's `code` if the call is refused or fails
 * @example
 * const licensing = createLicensingBackend({ baseUrl: 'https://licensing.example.com', apiKey })
 * const licence = await licensing.post('/v1/apps/{app_id}/licences', {
 *   path: { app_id: 'app_01k…' },
 *   body: { external_ref: 'customer-4711', plan_id: 'pln_01k…' },
 *   idempotencyKey: order.id,
 * })
 * for await (const { id, status } of licensing.rows('/v1/apps/{app_id}/licences', { path: { app_id } })) list(id, status)
 */
export function createLicensingBackend(options: BackendOptions): LicensingBackend {
  return createTypedClient<paths>(options)
}
