/** The terms on which a checkout was opened. */
export interface FeeTerms {
  bps: number
  fixedMinor: bigint
}

/** Basis points of the amount, rounded half up, plus the fixed part. There is no fee on an amount of zero. */
export function feeOf(amount: bigint, { bps, fixedMinor }: FeeTerms): bigint {
  return amount > 0n ? (amount * BigInt(bps) + 5_000n) / 10_000n + fixedMinor : 0n
}

/** The UTC month of a point in time, YYYY-MM. */
export function periodOf(at: Date): string {
  return at.toISOString().slice(0, 7)
}

/** The fee is credited if the whole amount is refunded within this time of the charge, inclusive. */
export const creditWindowMs = 7 * 24 * 60 * 60 * 1000

const feeRefund = 'refunded:'

/** The cause of a credit for a fee that was refunded at the processor although its credit had been reversed. */
export function feeRefundCause(feeEntryId: string): string {
  return `${feeRefund}${feeEntryId}`
}

export function isFeeRefundCause(cause: string): boolean {
  return cause.startsWith(feeRefund)
}
