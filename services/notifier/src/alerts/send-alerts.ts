import type { Database } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import { pauseAfter } from '@licensing/process/retry'
import type { Logger } from '@licensing/process/log'
import { Counter } from 'prom-client'
import { alertMail } from './alert-mail.ts'
import {
  endLease,
  leaseMailing,
  listDueAccounts,
  listWaitingAlerts,
  maxListed,
  recordLogged,
  recordMailed,
} from './alert-queries.ts'
import type { WaitingAlert, Lease } from './alert-queries.ts'
import { returnAllowances, ofAccount, takeAllowances } from './mail-allowance-queries.ts'
import { leaseSeconds, wasRefused } from './mailer.ts'
import type { SendMail } from './mailer.ts'

export interface AlertDependencies {
  sql: Database
  log: Logger
  /** The address for an account's alerts; null if it has confirmed none. */
  alertEmail: (accountId: string) => Promise<string | null>
  /** Undefined if no mail server is configured. */
  sendMail?: SendMail | undefined
}

const alertsCount = new Counter({
  name: 'notifier_alerts_total',
  help: 'Alerts by outcome: sent, logged, failed (is tried again)',
  labelNames: ['outcome'],
})

const accountsAtOnce = 100
const pauses = { firstMs: 2_000, maxMs: 600_000 }

/**
 * Mails waiting alerts, and tries each mail until the mail server has accepted it. Accounts take turns: each gets one mail
 * with all of its alerts before any account gets its next mail.
 */
export async function sendAlerts(deps: AlertDependencies, signal: AbortSignal): Promise<'idle' | void> {
  for (let isFirst = true; ; isFirst = false) {
    const accounts = await listDueAccounts(deps.sql, accountsAtOnce)
    if (accounts.length === 0) return isFirst ? 'idle' : undefined
    for (const accountId of accounts) {
      if (signal.aborted) return
      const lease = await leaseMailing(deps.sql, accountId, leaseSeconds)
      if (lease) await useLease(deps, lease)
    }
  }
}

async function useLease(deps: AlertDependencies, lease: Lease): Promise<void> {
  const { sql, log } = deps
  const { accountId } = lease
  let alerts: WaitingAlert[] = []
  try {
    alerts = await listWaitingAlerts(sql, accountId, maxListed)
    if (alerts.length === 0) return await endLease(sql, lease, 0, 0)
    const to = deps.sendMail && (await addressOf(deps.alertEmail, accountId))
    if (deps.sendMail && to) return await mail(deps.sendMail, deps, lease, to, alerts)
    for (const { subject, text } of alerts) log.warn({ account_id: accountId, subject, text }, 'alert')
    await recordLogged(
      sql,
      alerts.map(({ id }) => id),
    )
    alertsCount.inc({ outcome: 'logged' }, alerts.length)
    await endLease(sql, lease, 0, 0)
  } catch (error) {
    const failures = lease.failures + 1
    alertsCount.inc({ outcome: 'failed' }, alerts.length)
    log.warn({ err: error, account_id: accountId, alerts: alerts.length, failures }, 'alerts not sent')
    await endLease(sql, lease, pauseAfter(pauses, failures) / 1_000, failures)
  }
}

async function mail(
  sendMail: SendMail,
  { sql }: AlertDependencies,
  lease: Lease,
  to: string,
  alerts: WaitingAlert[],
): Promise<void> {
  const allowances = [ofAccount(lease.accountId)]
  const waitSeconds = await takeAllowances(sql, allowances)
  if (waitSeconds > 0) return endLease(sql, lease, waitSeconds, lease.failures)
  try {
    await sendMail({ to, ...alertMail(alerts, lease.unlisted) })
  } catch (error) {
    if (wasRefused(error)) await returnAllowances(sql, allowances)
    throw error
  }
  await recordMailed(
    sql,
    lease,
    alerts.map(({ id }) => id),
  )
  alertsCount.inc({ outcome: 'sent' }, alerts.length)
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
