import type { MessageInitShape } from '@bufbuild/protobuf'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import type {
  AlertEmailConfirmationSchema,
  ConfirmAlertEmailRequest,
  FindAlertEmailConfirmationRequest,
} from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { lockAccount, updateAlertEmail } from './account-queries.ts'
import { findConfirmation, useConfirmation } from './confirmation-queries.ts'
import type { Confirmation } from './confirmation-queries.ts'

export async function findAlertEmailConfirmation(
  { sql }: CatalogDependencies,
  { tokenHash }: FindAlertEmailConfirmationRequest,
): Promise<MessageInitShape<typeof AlertEmailConfirmationSchema>> {
  return toConfirmation(await findConfirmation(sql, tokenHash))
}

export async function confirmAlertEmail(
  { sql }: CatalogDependencies,
  { tokenHash }: ConfirmAlertEmailRequest,
): Promise<MessageInitShape<typeof AlertEmailConfirmationSchema>> {
  const { account_id: accountId } = existing(await findConfirmation(sql, tokenHash))
  return transaction(sql, async (tx) => {
    // Lock order: the account before its confirmation, as when an address is set.
    await lockAccount(tx, accountId)
    const confirmation = existing(await useConfirmation(tx, accountId, tokenHash))
    await updateAlertEmail(tx, accountId, confirmation.address)
    return toConfirmation(confirmation)
  })
}

function existing(confirmation: Confirmation | undefined): Confirmation {
  if (confirmation) return confirmation
  throw new ServiceError(
    'not_found',
    'this link is not valid: it was used, it expired, or a newer mail has another link',
  )
}

function toConfirmation(
  found: Confirmation | undefined,
): MessageInitShape<typeof AlertEmailConfirmationSchema> {
  const { account_id: accountId, address: alertEmail } = existing(found)
  return { accountId, alertEmail }
}
