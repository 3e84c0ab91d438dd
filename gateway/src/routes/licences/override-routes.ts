import { ServiceError } from '@licensing/grpc/errors'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { isEntitlementKey } from '../entitlement-defs/entitlement-def-routes.ts'
import { overrideJson, overrideSchema } from './licence-detail-json.ts'
import { setOverrideBody } from './licence-inputs.ts'
import { licenceJson, licenceSchema } from './licence-json.ts'
import { findLicence, licenceScope } from './one-licence-routes.ts'
import type { LicenceCall } from './one-licence-routes.ts'

const tag = 'Licences'
const one = '/v1/licences/{licence_id}/overrides/{key}'

type OverrideCall = LicenceCall & { params: { readonly key: string } }

/** @throws ServiceError `not_found` if the text does not have the form of an entitlement's key */
function overrideScope(call: OverrideCall) {
  const { licence_id: licenceId, key } = call.params
  if (!isEntitlementKey(key)) {
    throw new ServiceError('not_found', `licence ${licenceId} has no entitlement of this key`)
  }
  return { ...licenceScope(call), key }
}

/** An override can have any key of the snapshot, and any key that only the plan has, which is in `planDrift`. */
async function findEntitlement(call: OverrideCall) {
  const { key, licenceId } = overrideScope(call)
  const { entitlements, planDrift } = await findLicence(call)
  if ([...entitlements, ...planDrift].some((known) => known.key === key)) return
  throw new ServiceError('not_found', `licence ${licenceId} has no entitlement ${key}`)
}

async function findOverride(call: OverrideCall) {
  const { key, licenceId } = overrideScope(call)
  const { overrides } = await findLicence(call)
  if (overrides.some((override) => override.key === key)) return
  throw new ServiceError('not_found', `licence ${licenceId} has no override of ${key}`)
}

export const overrideRoutes: Route[] = [
  vendorRoute({
    method: 'PUT',
    path: one,
    operationId: 'setOverride',
    tag,
    summary: 'Give one licence another value of an entitlement',
    description:
      'Products get the value with their next token. The override replaces an earlier one of the same key. After `ends_on` the value of the snapshot counts again, and no token outlives that time.',
    scopes: ['issue'],
    body: setOverrideBody,
    answer: overrideSchema,
    errors: ['conflict', 'quota_exceeded'],
    lookUp: findEntitlement,
    handle: async (call) => {
      const { value, ends_on: endsOn, note } = call.body
      const request = { ...overrideScope(call), actor: call.actorId, value, endsOn, note }
      return { body: overrideJson(await call.services.licensing.setOverride(request)) }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: one,
    operationId: 'deleteOverride',
    tag,
    summary: 'Delete an override',
    description: 'The value of the snapshot counts again.',
    scopes: ['issue'],
    errors: ['conflict'],
    lookUp: findOverride,
    handle: async (call) => {
      await call.services.licensing.deleteOverride({ ...overrideScope(call), actor: call.actorId })
      return {}
    },
  }),
  vendorRoute({
    method: 'POST',
    path: '/v1/licences/{licence_id}/take-plan-values',
    operationId: 'takePlanValues',
    tag,
    summary: 'Replace the snapshot of a licence by the current values of its plan',
    description: '`plan_drift` is empty afterwards. Overrides stay.',
    scopes: ['issue'],
    answer: licenceSchema,
    errors: ['conflict'],
    lookUp: findLicence,
    handle: async (call) => ({
      body: licenceJson(
        await call.services.licensing.takePlanValues({ ...licenceScope(call), actor: call.actorId }),
      ),
    }),
  }),
]
