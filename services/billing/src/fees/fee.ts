/** The terms on which a checkout was opened. */
export interface FeeTerms {
  bps: number
  fixedMinor: bigint
}

/** Basis points of the amount, rounded half up, plus the fixed part. What costs nothing costs no fee. */
export function feeOf(amount: bigint, { bps, fixedMinor }: FeeTerms): bigint {
  return amount > 0n ? (amount * BigInt(bps) + 5_000n) / 10_000n + fixedMinor : 0n
}

/** The UTC month of a point in time, YYYY-MM. */
export function periodOf(at: Date): string {
  return at.toISOString().slice(0, 7)
}

/** Full refunds within this time of the charge, inclusive, earn the fee back. */
export const creditWindowMs = 7 * 24 * 60 * 60 * 1000

const givenBack = 'given back:'

/** The cause of a credit for a fee that was given back at the processor after its credit had been reversed. */
export function givenBackCause(feeEntryId: string): string {
  return `${givenBack}${feeEntryId}`
}

export function isGivenBackCause(cause: string): boolean {
  return cause.startsWith(givenBack)
}
