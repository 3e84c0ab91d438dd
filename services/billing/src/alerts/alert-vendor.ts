import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { AlertKind } from '@licensing/proto/closed-sets'
import { openAlerts } from './open-alert-queries.ts'

export interface VendorAlert {
  kind: AlertKind
  subject: string
  text: string
}

/** Alerts vendors: the notifier sends a mail and lists the alert. */
export async function alertVendors(
  tx: Transaction,
  accountIds: string[],
  alert: VendorAlert,
  applicationId = '',
): Promise<void> {
  const payload = { case: 'vendorAlert' as const, value: alert }
  await append(tx, ...accountIds.map((accountId) => ({ accountId, applicationId, payload })))
}

/**
 * Like `alertVendors`, but only once for an account and kind until `closeAlerts`: an outage is one alert, however many
 * things fail.
 */
export async function alertOnce(tx: Transaction, accountIds: string[], alert: VendorAlert): Promise<void> {
  await alertVendors(tx, await openAlerts(tx, accountIds, alert.kind), alert)
}
