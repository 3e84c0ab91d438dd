import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'

/** Tells people at the vendor; the notifier mails it. */
export async function alertVendor(
  tx: Transaction,
  accountId: string,
  alert: { subject: string; text: string },
): Promise<void> {
  await append(tx, { accountId, applicationId: '', payload: { case: 'vendorAlert', value: alert } })
}
