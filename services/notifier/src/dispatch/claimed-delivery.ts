import type { DueDelivery } from '../deliveries/delivery.ts'

/** A delivery that this process has claimed, for as long as the lease lasts. */
export interface ClaimedDelivery {
  delivery: DueDelivery
  claimId: string
  /** The earliest performance.now() at which the lease may have ended. */
  leaseEndsAt: number
}

/** How long a claim lasts: some time in the queue, an attempt of 5 s, and the time to record it. */
export const leaseMs = 12_000

/** An attempt starts only if at least this much of the lease is left. */
export const leaseMarginMs = 7_000

/** First attempts do not wait behind retries and replays. */
export type AttemptKind = 'first' | 'later'

export function attemptKindOf({ delivery }: ClaimedDelivery): AttemptKind {
  return delivery.attempt_count === 0 && !delivery.is_replay ? 'first' : 'later'
}
