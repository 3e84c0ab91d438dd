import { hash, randomBytes } from 'node:crypto'
import type { Database, Transaction } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import { pauseAfter } from '@licensing/process/retry'
import type { Logger } from '@licensing/process/log'
import type { NotifierService } from '@licensing/proto/notifier'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { AlertEmailConfirmationSchema } from '@licensing/proto/catalog'
import {
  postponeConfirmation,
  recordConfirmationMailed,
  takeConfirmation,
  findConfirmation,
  useConfirmation,
} from './confirmation-queries.ts'
import type { Confirmation } from './confirmation-queries.ts'
import type { Handler } from '../dependencies.ts'
import { updateAlertEmail } from './account-queries.ts'
import { changeAccount } from './accounts.ts'

export type ConfirmationSender = Pick<ServiceClient<typeof NotifierService>, 'sendConfirmation'>

// The notifier answers after the mail server did. The lease is longer, so that no other replica sends the same mail.
const sendingTimeoutMs = 240_000
const leaseSeconds = 300
const pauses = { firstMs: 2_000, maxMs: 600_000 }

/** Asks the notifier to send each confirmation mail that is due. */
export async function sendConfirmations(
  { sql, log, notifier }: { sql: Database; log: Logger; notifier: ConfirmationSender },
  signal: AbortSignal,
): Promise<'idle' | void> {
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const token = randomBytes(32).toString('base64url')
    const tokenHash = hash('sha256', token, 'buffer')
    const due = await takeConfirmation(sql, tokenHash, leaseSeconds)
    if (!due) return isFirst ? 'idle' : undefined
    const { account_id: accountId, address, tries } = due
    try {
      const { retryAfterSeconds } = await notifier.sendConfirmation(
        { accountId, address, token },
        { timeoutMs: sendingTimeoutMs, signal },
      )
      if (retryAfterSeconds > 0) await postponeConfirmation(sql, tokenHash, retryAfterSeconds)
      else await recordConfirmationMailed(sql, tokenHash)
    } catch (error) {
      log.warn({ err: error, account_id: accountId, tries }, 'confirmation mail not sent')
      await postponeConfirmation(sql, tokenHash, pauseAfter(pauses, tries) / 1_000)
    }
  }
}

export const findAlertEmailConfirmation: Handler<'findAlertEmailConfirmation'> = async (
  { sql },
  { tokenHash },
) => {
  return toConfirmation(await findConfirmation(sql, tokenHash))
}

export const confirmAlertEmail: Handler<'confirmAlertEmail'> = async ({ sql, change }, { tokenHash }) => {
  const { account_id: accountId } = existing(await findConfirmation(sql, tokenHash))
  let confirmation: Confirmation | undefined
  const use = (tx: Transaction) =>
    // Lock order: the account before its confirmation, as in `updateAccount`.
    changeAccount(
      tx,
      accountId,
      async () => {
        confirmation = existing(await useConfirmation(tx, accountId, tokenHash))
        await updateAlertEmail(tx, accountId, confirmation.address)
      },
      byMail,
    )
  await change(use)
  return toConfirmation(confirmation)
}

/** The mail proves who confirms: its link is used without an API key. */
const byMail = { actor: 'mail', operation: 'confirmAlertEmail' }

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
