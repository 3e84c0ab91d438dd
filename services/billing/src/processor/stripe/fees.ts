import type { Stripe } from 'stripe'
import type { ChargedFee } from '../processor.ts'
import { lookUp } from './failures.ts'
import { allOf } from './look-ups.ts'
import { metadataKeys } from './read.ts'

const options = { timeout: 5_000 }

/**
 * The application fee of a charge. It belongs to the platform, so the calls name no connected account. If a vendor
 * refunds a charge in Stripe's dashboard, Stripe does not refund the fee.
 */
export async function findFee(stripe: Stripe, chargeRef: string): Promise<ChargedFee | undefined> {
  const { data } = await stripe.applicationFees.list({ charge: chargeRef }, options)
  const [fee] = data
  if (!fee) return undefined
  const refunds = fee.refunds.has_more
    ? await allOf(stripe.applicationFees.listRefunds(fee.id, { limit: 100 }, options))
    : fee.refunds.data
  return {
    feeRef: fee.id,
    leftMinor: BigInt(fee.amount - fee.amount_refunded),
    refunds: refunds.map(({ amount, created, metadata }) => ({
      amountMinor: BigInt(amount),
      entryId: metadata?.[metadataKeys.feeEntryId],
      at: new Date(created * 1000),
    })),
  }
}

/** @param stripe a client that does not repeat requests */
export async function refundFee(
  stripe: Stripe,
  feeRef: string,
  amountMinor: bigint,
  entryId: string,
): Promise<void> {
  const refund = { amount: Number(amountMinor), metadata: { [metadataKeys.feeEntryId]: entryId } }
  // If there is no such fee, its charge was removed, and there is nothing to refund.
  await lookUp(() =>
    stripe.applicationFees.createRefund(feeRef, refund, {
      ...options,
      idempotencyKey: `${entryId}:${feeRef}`,
    }),
  )
}
