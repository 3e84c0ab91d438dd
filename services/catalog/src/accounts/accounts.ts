import { messageOf } from '@licensing/grpc/fields'
import { AccountSchema } from '@licensing/proto/catalog'
import type { Account } from '@licensing/proto/catalog'
import type { UpdateAccountRequest } from '@licensing/proto/catalog'
import type { Transaction } from '@licensing/database/connect'
import { audit, changesOf } from '@licensing/changes/audit'
import type { RequestCaller } from '@licensing/process/context'
import type { Handler } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import { findAccount, lockAccount, updateAlertEmail, updateName } from './account-queries.ts'
import type { AccountRow } from './account-queries.ts'
import { deleteConfirmation, requestConfirmation } from './confirmation-queries.ts'

export const getAccount: Handler<'getAccount'> = async ({ sql }, request) => {
  const row = await findAccount(sql, request.accountId)
  if (!row) throw notFound('account', request.accountId)
  return toAccount(row)
}

export const updateAccount: Handler<'updateAccount'> = async ({ change, confirmationRequested }, request) => {
  const { accountId, name, alertEmail } = request
  checkAccount(request)
  const row = await change((tx) =>
    changeAccount(tx, accountId, async () => {
      if (name !== undefined) await updateName(tx, accountId, name)
      if (alertEmail !== undefined) await setAlertEmail(tx, accountId, alertEmail)
    }),
  )
  if (alertEmail) confirmationRequested()
  return toAccount(row)
}

/**
 * Changes an account under its lock, with its entry in the audit log.
 *
 * @param by who changes it, if it is not the caller
 * @throws ServiceError `not_found`
 */
export async function changeAccount(
  tx: Transaction,
  accountId: string,
  work: () => Promise<void>,
  by?: RequestCaller,
): Promise<AccountRow> {
  if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
  const before = await findAccount(tx, accountId)
  await work()
  const after = await findAccount(tx, accountId)
  const changes = changesOf(AccountSchema, toAccount(before!), toAccount(after!))
  await audit(tx, { accountId, resourceId: accountId, changes, by })
  return after!
}

/** @throws ServiceError `validation_failed` */
export function checkAccount({ name, alertEmail }: Pick<UpdateAccountRequest, 'name' | 'alertEmail'>): void {
  const violations = new Violations()
  if (name !== undefined) violations.checkName('/name', name)
  if (alertEmail && !emailAddress.test(alertEmail)) {
    violations.add('/alert_email', 'must be an e-mail address')
  }
  violations.throwIfAny()
}

/** A new address receives alerts after it is confirmed. Until then the previous address receives them. */
async function setAlertEmail(tx: Transaction, accountId: string, address: string): Promise<void> {
  const account = await findAccount(tx, accountId)
  if (address !== '' && address !== account?.alert_email) {
    return requestConfirmation(tx, accountId, address)
  }
  await deleteConfirmation(tx, accountId)
  if (address === '') await updateAlertEmail(tx, accountId, null)
}

export function toAccount(row: AccountRow): Account {
  const { alert_email: confirmed, unconfirmed_alert_email: unconfirmed } = row
  return messageOf(AccountSchema, {
    ...row,
    alert_email: unconfirmed ?? confirmed,
    alert_email_confirmed: confirmed !== null && unconfirmed === null,
    confirmed_alert_email: confirmed,
  })
}

// Control characters, and characters that separate or quote addresses in a mail header.
const excluded = String.raw`\s@\p{Cc}<>()[\]\\,;:"`

/** A loose check of e-mail addresses. A domain without a dot is allowed. Only a confirmed mail proves an address. */
export const emailAddress = new RegExp(`^(?=.{3,254}$)[^${excluded}]+@[^${excluded}]+$`, 'u')
