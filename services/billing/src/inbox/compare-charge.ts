import type { BillingDeps } from '../dependencies.ts'
import { findCharges } from '../facts/charge-facts.ts'
import { recordFact } from '../facts/record-fact.ts'
import { graceMs, ripen } from '../facts/ripeness.ts'
import type { Found } from './look-up.ts'

/**
 * Before a refund or a dispute has consequences, the processor's own records of the charge are read: they have what
 * other events, still on their way, will tell, so that all of it takes effect in the order in which it happened.
 */
export async function compareCharge(
  { sql, processor, log }: BillingDeps,
  merchant: string,
  paymentRef: string,
): Promise<Found> {
  const ripeAt = new Date(Date.now() + graceMs)
  try {
    const known = (await findCharges(sql, merchant, [paymentRef])).get(paymentRef)?.charge_ref
    const chargeRef = known ?? (await processor.findCharge(merchant, { paymentRef }))?.chargeRef
    const records = chargeRef === undefined ? undefined : await processor.chargeRecords(merchant, chargeRef)
    if (!records) return 'absent'
    for (const fact of [records.charge, ...records.refunds, ...records.disputes]) {
      await recordFact(sql, merchant, fact, ripeAt)
    }
    await ripen(sql, merchant, paymentRef)
    return 'known'
  } catch (error) {
    log.info({ err: error, merchant, payment: paymentRef }, 'charge not compared')
    return 'failing'
  }
}
