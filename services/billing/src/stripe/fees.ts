import type { Stripe } from 'stripe'
import { lookUp } from './failures.ts'

/**
 * Gives an application fee back. Application fees are the platform's own objects, so without a connected account. A
 * refund in the vendor's dashboard does not do this by itself.
 */
export async function refundFee(
  stripe: Stripe,
  chargeRef: string,
  amountMinor: bigint,
  idempotencyKey: string,
): Promise<void> {
  const fees = await lookUp(() => stripe.applicationFees.list({ charge: chargeRef }, { timeout: 5_000 }))
  const fee = fees?.data[0]
  if (!fee) return
  const left = fee.amount - fee.amount_refunded
  const amount = Math.min(Number(amountMinor), left)
  if (amount <= 0) return
  // Refused: it was given back in the meantime.
  await lookUp(() =>
    stripe.applicationFees.createRefund(fee.id, { amount }, { idempotencyKey, timeout: 5_000 }),
  )
}
