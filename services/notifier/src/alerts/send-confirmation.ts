import { hash } from 'node:crypto'
import { ServiceError } from '@licensing/grpc/errors'
import type { Handler } from '../dependencies.ts'
import { returnAllowances, ofAccount, ofAddress, takeAllowances } from './mail-allowance-queries.ts'
import { wasRefused } from './mailer.ts'

/** The gateway's page: gateway/src/pages/confirm-alert-email.ts. */
const pagePath = '/confirm-alert-email'

/** Mails the link that confirms an address. The mail contains no text of the vendor: its reader may not know the vendor. */
export const sendConfirmation: Handler<'sendConfirmation'> = async (
  { sql, sendMail, publicUrl },
  { accountId, address, token },
) => {
  if (!sendMail || publicUrl === undefined) {
    throw new ServiceError('unavailable', 'no mail can be sent: the notifier has no SMTP_URL')
  }
  const allowances = [ofAccount(accountId), ofAddress(address)]
  const retryAfterSeconds = await takeAllowances(sql, allowances)
  if (retryAfterSeconds > 0) return { retryAfterSeconds }
  const base = publicUrl.replace(/\/$/, '')
  try {
    await sendMail({
      to: address,
      subject: 'Confirm this address for alerts',
      text: [
        `The licensing service at ${base} is to send alerts of the vendor account ${accountId} to this address.`,
        'To receive them, open this link and choose "Confirm":',
        `${base}${pagePath}?token=${token}`,
        'The link works once, within seven days. If you do not expect it, ignore this mail: without your confirmation no alerts are sent to you.',
      ].join('\n\n'),
      reference: `confirm-${hash('sha256', token).slice(0, 32)}`,
    })
  } catch (error) {
    if (wasRefused(error)) await returnAllowances(sql, allowances)
    throw new ServiceError('unavailable', 'the mail server did not accept the mail', { cause: error })
  }
  return {}
}
