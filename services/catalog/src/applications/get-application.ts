import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ApplicationSchema, GetApplicationRequest } from '@licensing/proto/catalog'
import type { CatalogDeps } from '../deps.ts'
import { notFound } from '../refusals.ts'
import { findApplication } from './application-queries.ts'
import { toApplication } from './application.ts'

export async function getApplication(
  { sql }: CatalogDeps,
  { accountId, applicationId }: GetApplicationRequest,
): Promise<MessageInitShape<typeof ApplicationSchema>> {
  const row = await findApplication(sql, accountId, applicationId)
  if (!row) throw notFound('application', applicationId)
  return toApplication(row)
}
