import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import type { DeleteEntitlementDefinitionRequest } from '@licensing/proto/catalog'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { changeAllPlans, pushPlansOf } from '../plan-copies/change-all-plans.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { notFound } from '../refusals.ts'
import { deleteDefinitionRow } from './definition-queries.ts'

/** Issued licences keep their snapshot (interface 4.1): those are licensing's, and not touched from here. */
export async function deleteDefinition(
  deps: CatalogDependencies,
  request: DeleteEntitlementDefinitionRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const { accountId, applicationId, entitlementDefId: id } = request
  await requireLicensing(deps)
  await changeApplication(deps, request, async (tx) => {
    const deleted = isId('ent', id) && (await deleteDefinitionRow(tx, applicationId, id))
    if (!deleted) throw notFound('entitlement definition', id)
    await changeAllPlans(tx, { accountId, applicationId })
  })
  await pushPlansOf(deps, applicationId)
  return {}
}
