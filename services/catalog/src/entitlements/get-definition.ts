import type { MessageInitShape } from '@bufbuild/protobuf'
import { isId } from '@licensing/database/ids'
import type { EntitlementDefinitionSchema, GetEntitlementDefinitionRequest } from '@licensing/proto/catalog'
import { checkApplicationId, requireApplication } from '../applications/application-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findDefinition } from './definition-queries.ts'
import { toDefinition } from './definition.ts'

export async function getDefinition(
  { sql }: CatalogDependencies,
  { accountId, applicationId, entitlementDefId: id }: GetEntitlementDefinitionRequest,
): Promise<MessageInitShape<typeof EntitlementDefinitionSchema>> {
  checkApplicationId(applicationId)
  const row = isId('ent', id) ? await findDefinition(sql, accountId, applicationId, id) : undefined
  if (row) return toDefinition(row)
  await requireApplication(sql, accountId, applicationId)
  throw notFound('entitlement definition', id)
}
