import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import type { AccountSchema, UpdateAccountRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import { findAccount, lockAccount, updateAlertEmail, updateName } from './account-queries.ts'
import { toAccount } from './account.ts'
import { deleteConfirmation, requestConfirmation } from './confirmation-queries.ts'
import { emailAddress } from './email-address.ts'

export async function updateAccount(
  { sql, confirmationRequested }: CatalogDependencies,
  request: UpdateAccountRequest,
): Promise<MessageInitShape<typeof AccountSchema>> {
  const { accountId, name, alertEmail } = request
  const violations = new Violations()
  if (name !== undefined) violations.checkName('/name', name)
  if (alertEmail && !emailAddress.test(alertEmail)) {
    violations.add('/alert_email', 'must be an e-mail address')
  }
  violations.throwIfAny()
  const row = await transaction(sql, async (tx) => {
    if (!(await lockAccount(tx, accountId))) return undefined
    if (name !== undefined) await updateName(tx, accountId, name)
    if (alertEmail !== undefined) await setAlertEmail(tx, accountId, alertEmail)
    return findAccount(tx, accountId)
  })
  if (!row) throw notFound('account', accountId)
  if (alertEmail) confirmationRequested()
  return toAccount(row)
}

/** An address receives alerts once it is confirmed; the address before it receives them until then. */
async function setAlertEmail(tx: Transaction, accountId: string, address: string): Promise<void> {
  const account = await findAccount(tx, accountId)
  if (address !== '' && address !== account?.alert_email) {
    return requestConfirmation(tx, accountId, address)
  }
  await deleteConfirmation(tx, accountId)
  if (address === '') await updateAlertEmail(tx, accountId, null)
}
