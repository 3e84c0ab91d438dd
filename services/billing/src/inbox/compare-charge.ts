import { transaction } from '@licensing/database/transaction'
import type { BillingDeps } from '../deps.ts'
import { recordFact } from '../facts/record-fact.ts'
import { deriveRefund } from '../facts/refund-facts.ts'
import { ripen } from '../facts/subjects.ts'
import type { Found } from './look-up.ts'

/**
 * Before a refund or a dispute has consequences, the processor's own records of the charge are read: they have what
 * other events, still on their way, will tell, so that all of it takes effect in the order in which it happened.
 */
export async function compareCharge(
  { sql, processor }: BillingDeps,
  merchant: string,
  { chargeRef, paymentRef }: { chargeRef: string | undefined; paymentRef: string },
): Promise<Found> {
  const now = new Date()
  try {
    const ref = chargeRef ?? (await processor.findCharge(merchant, { paymentRef }))?.chargeRef
    const records = ref === undefined ? undefined : await processor.chargeRecords(merchant, ref)
    if (!records) return 'absent'
    for (const fact of [records.charge, ...records.refunds, ...records.disputes]) {
      await recordFact(sql, merchant, fact, now)
    }
  } catch {
    return 'failing'
  }
  await ripen(sql, merchant, paymentRef)
  return 'known'
}

/** Takes the charge's total for what no refund has told, where the processor has no list of them. */
export async function inferRefund(
  { sql }: BillingDeps,
  merchant: string,
  charge: { chargeRef: string; paymentRef: string; currency: string; refunded: bigint },
  at: Date,
): Promise<void> {
  await transaction(sql, (tx) =>
    deriveRefund(
      tx,
      merchant,
      {
        charge_ref: charge.chargeRef,
        payment_ref: charge.paymentRef,
        currency: charge.currency,
        refunded: charge.refunded,
      },
      at,
    ),
  )
}
