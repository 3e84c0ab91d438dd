import type { MessageInitShape } from '@bufbuild/protobuf'
import type { AccountSchema, UpdateAccountRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import { updateAccountRow } from './account-queries.ts'
import { toAccount } from './account.ts'
import { emailAddress } from './email-address.ts'

export async function updateAccount(
  { sql }: CatalogDependencies,
  request: UpdateAccountRequest,
): Promise<MessageInitShape<typeof AccountSchema>> {
  const { accountId, name, alertEmail } = request
  const violations = new Violations()
  if (name !== undefined) violations.checkName('/name', name)
  if (alertEmail && !emailAddress.test(alertEmail)) {
    violations.add('/alert_email', 'must be an e-mail address')
  }
  violations.throwIfAny()
  const row = await updateAccountRow(sql, accountId, {
    name,
    alertEmail: alertEmail === '' ? null : alertEmail,
  })
  if (!row) throw notFound('account', accountId)
  return toAccount(row)
}
