import type { Database } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import type { Logger } from '@licensing/process/log'
import { Counter } from 'prom-client'
import type { DueAlert } from './alert-queries.ts'
import { alertSent, takeAlert, tryAlertAgain } from './alert-queries.ts'
import type { SendMail } from './mail.ts'

export interface AlertDependencies {
  sql: Database
  log: Logger
  /** Where an account's alerts go; null where it wants none. */
  alertEmail: (accountId: string) => Promise<string | null>
  /** Absent where no mail server is configured. */
  sendMail?: SendMail | undefined
}

const alertsCount = new Counter({
  name: 'notifier_alerts_total',
  help: 'Alerts by what became of them: sent, logged, failed (is tried again)',
  labelNames: ['outcome'],
})

// Longer than looking up the address and handing over the mail can take.
const leaseSeconds = 60
const longestPauseSeconds = 600

/** Sends every alert that is due, each until the mail server has taken it. */
export async function sendAlerts(deps: AlertDependencies): Promise<void> {
  for (;;) {
    const alert = await takeAlert(deps.sql, leaseSeconds)
    if (!alert) return
    try {
      const outcome = await send(deps, alert)
      alertsCount.inc({ outcome })
      await alertSent(deps.sql, alert.id, outcome === 'sent')
    } catch (error) {
      alertsCount.inc({ outcome: 'failed' })
      deps.log.warn({ err: error, alert: alert.id.toString(), tries: alert.tries }, 'alert not sent')
      await tryAlertAgain(deps.sql, alert.id, Math.min(2 ** alert.tries, longestPauseSeconds))
    }
  }
}

async function send(
  { log, alertEmail, sendMail }: AlertDependencies,
  alert: DueAlert,
): Promise<'sent' | 'logged'> {
  const { id, account_id: accountId, subject, text, created_at: createdAt } = alert
  const to = sendMail && (await addressOf(alertEmail, accountId))
  if (!sendMail || !to) {
    log.warn({ account_id: accountId, subject, text }, 'alert')
    return 'logged'
  }
  await sendMail({ to, subject, text, reference: `alert-${id}-${createdAt.getTime()}` })
  return 'sent'
}

async function addressOf(
  alertEmail: AlertDependencies['alertEmail'],
  accountId: string,
): Promise<string | null> {
  try {
    return await alertEmail(accountId)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'not_found') return null
    throw error
  }
}
