import { hash, randomBytes } from 'node:crypto'
import type { Database } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { NotifierService } from '@licensing/proto/notifier'
import { postponeConfirmation, recordConfirmationMailed, takeConfirmation } from './confirmation-queries.ts'

export type ConfirmationSender = Pick<ServiceClient<typeof NotifierService>, 'sendConfirmation'>

// The notifier answers when the mail server has answered. The lease is longer, so that no other replica sends it too.
const sendingTimeoutMs = 240_000
const leaseSeconds = 300
const longestPauseSeconds = 600

/** Has the notifier send every confirmation mail that is due. */
export async function sendConfirmations(
  { sql, log, notifier }: { sql: Database; log: Logger; notifier: ConfirmationSender },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const token = randomBytes(32).toString('base64url')
    const tokenHash = hash('sha256', token, 'buffer')
    const due = await takeConfirmation(sql, tokenHash, leaseSeconds)
    if (!due) return
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
      await postponeConfirmation(sql, tokenHash, Math.min(2 ** tries, longestPauseSeconds))
    }
  }
}
