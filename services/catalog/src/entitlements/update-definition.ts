import type { MessageInitShape } from '@bufbuild/protobuf'
import { isId } from '@licensing/database/ids'
import type {
  EntitlementDefinitionSchema,
  UpdateEntitlementDefinitionRequest,
} from '@licensing/proto/catalog'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { changeAllPlans, pushPlansOf } from '../plan-copies/change-all-plans.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { notFound, Violations } from '../refusals.ts'
import { findDefinition, updateDefinitionRow } from './definition-queries.ts'
import { problemOfValue, toDefinition } from './definition.ts'

/** Key and kind are permanent (interface 9). */
export async function updateDefinition(
  deps: CatalogDependencies,
  request: UpdateEntitlementDefinitionRequest,
): Promise<MessageInitShape<typeof EntitlementDefinitionSchema>> {
  const { accountId, applicationId, entitlementDefId: id, displayName } = request
  if (request.default !== undefined) await requireLicensing(deps)
  const row = await changeApplication(deps, request, async (tx) => {
    const found = isId('ent', id) ? await findDefinition(tx, accountId, applicationId, id) : undefined
    if (!found) throw notFound('entitlement definition', id)
    const value = request.default ?? found.default_value
    const violations = new Violations()
    if (displayName !== undefined) violations.checkName('/display_name', displayName)
    const unfit = problemOfValue(found.kind, value)
    if (unfit !== undefined) violations.add('/default', `${unfit}, as this is a ${found.kind}`)
    violations.throwIfAny()
    const updated = await updateDefinitionRow(tx, id, {
      displayName: displayName ?? found.display_name,
      default: value,
    })
    if (value !== found.default_value) await changeAllPlans(tx, { accountId, applicationId })
    return updated
  })
  // Also where the default stood already: an earlier call may have saved it without reaching licensing.
  if (request.default !== undefined) await pushPlansOf(deps, applicationId)
  return toDefinition(row)
}
