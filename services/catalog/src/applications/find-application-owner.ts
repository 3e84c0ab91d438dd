import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ApplicationOwnerSchema, FindApplicationOwnerRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findApplicationOfAnyAccount } from './application-queries.ts'

export async function findApplicationOwner(
  { sql }: CatalogDependencies,
  { applicationId }: FindApplicationOwnerRequest,
): Promise<MessageInitShape<typeof ApplicationOwnerSchema>> {
  const row = await findApplicationOfAnyAccount(sql, applicationId)
  if (!row) throw notFound('application', applicationId)
  return { accountId: row.account_id }
}
