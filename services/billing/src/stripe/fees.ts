import type { Stripe } from 'stripe'
import { lookUp } from './failures.ts'

/**
 * Gives an application fee back. Application fees are the platform's own objects, so without a connected account. A
 * refund in the vendor's dashboard does not do this by itself.
 *
 * @throws where there is none yet: with asynchronous capture it comes up to an hour after the charge
 */
export async function refundFee(
  stripe: Stripe,
  chargeRef: string,
  amountMinor: bigint,
  idempotencyKey: string,
): Promise<void> {
  const { data } = await stripe.applicationFees.list({ charge: chargeRef }, { timeout: 5_000 })
  const [fee] = data
  if (!fee) throw new Error(`charge ${chargeRef} has no application fee yet`)
  const left = fee.amount - fee.amount_refunded
  const amount = Math.min(Number(amountMinor), left)
  if (amount <= 0) return
  // Absent: the fee's charge was removed, so that there is nothing to give back.
  await lookUp(() =>
    stripe.applicationFees.createRefund(fee.id, { amount }, { idempotencyKey, timeout: 5_000 }),
  )
}
