import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ApplicationSchema, GetApplicationRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findApplication, findApplicationOfAnyAccount } from './application-queries.ts'
import { toApplication } from './application.ts'

export async function getApplication(
  { sql }: CatalogDependencies,
  { accountId, applicationId }: GetApplicationRequest,
): Promise<MessageInitShape<typeof ApplicationSchema>> {
  // Gateways of the release before ask for an owner this way (catalog.proto); every other gives the account.
  const row =
    accountId === ''
      ? await findApplicationOfAnyAccount(sql, applicationId)
      : await findApplication(sql, accountId, applicationId)
  if (!row) throw notFound('application', applicationId)
  return toApplication(row)
}
