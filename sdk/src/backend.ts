import { createTypedClient, type TypedClient } from './backend/client.ts'
import type { components, paths } from './backend/gen/api.ts'
import type { BackendOptions } from './backend/request.ts'

/** The public face of the package for vendors' backends. */
export { LicensingApiError, type FieldProblem } from './backend/errors.ts'
export { newIdempotencyKey } from './backend/request.ts'
export type { BackendOptions } from './backend/request.ts'

/** The REST API, typed path by path: see `createLicensingBackend`. */
export type LicensingBackend = TypedClient<paths>

/** The named shapes of the API: `Schemas['Licence']`. */
export type Schemas = components['schemas']

/**
 * A client of the REST API for a vendor's backend: one function a method, whose paths, parameters, bodies and answers
 * are typed by the API's own document. Each resolves to the answer's body. What a rate limit refused is sent again
 * after the time asked for; what failed on the way (503, no connection, no answer in time) is sent again where doing it
 * twice is doing it once: so is every `post`, which carries an `Idempotency-Key` of its own unless it is given one.
 *
 * @throws LicensingApiError (by rejecting) with the service's `code` where the answer is not the one wanted
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
