import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import type {
  ListEntitlementDefinitionsRequest,
  ListEntitlementDefinitionsResponseSchema,
} from '@licensing/proto/catalog'
import { checkApplicationId, requireApplication } from '../applications/application-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { checkPage } from '../check-page.ts'
import { listDefinitionRows } from './definition-queries.ts'
import { toDefinition } from './definition.ts'

export async function listDefinitions(
  { sql }: CatalogDependencies,
  request: ListEntitlementDefinitionsRequest,
): Promise<MessageInitShape<typeof ListEntitlementDefinitionsResponseSchema>> {
  const { accountId, applicationId, limit } = request
  checkPage('ent', request)
  checkApplicationId(applicationId)
  const rows = await listDefinitionRows(sql, accountId, applicationId, request)
  if (rows.length === 0) await requireApplication(sql, accountId, applicationId)
  const { page, hasMore } = pageOf(rows, limit)
  return { definitions: page.map(toDefinition), hasMore }
}
