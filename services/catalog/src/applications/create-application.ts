import type { MessageInitShape } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import type { ApplicationSchema, CreateApplicationRequest } from '@licensing/proto/catalog'
import type { CatalogDeps } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import { insertApplication } from './application-queries.ts'
import { toApplication } from './application.ts'

export async function createApplication(
  { sql }: CatalogDeps,
  { accountId, name }: CreateApplicationRequest,
): Promise<MessageInitShape<typeof ApplicationSchema>> {
  const violations = new Violations()
  violations.checkName('/name', name)
  violations.throwIfAny()
  const row = await insertApplication(sql, { id: newId('app'), accountId, name }).catch((error: unknown) => {
    if (brokenConstraint(error) === 'applications_account_id_fkey') throw notFound('account', accountId)
    throw error
  })
  return toApplication(row)
}
