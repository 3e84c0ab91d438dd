/** A delivery whose next attempt is to be made. */
export interface Sendable {
  id: string
  application_id: string
  endpoint_id: string
  event_id: string
  body: string
  trace_parent: string | null
  created_at: Date
  /** Attempts made so far, and those of them that the schedule asked for. */
  attempt_count: number
  scheduled_attempts: number
  /** Asked for by a person: no failure of it counts, and it is not retried by itself. */
  is_replay: boolean
}

/** A delivery that this process holds under a lease. */
export interface Work {
  delivery: Sendable
  claimId: string
  /** performance.now() at which the lease may be over. */
  leaseEndsAt: number
}

/** First attempts do not wait behind retries and replays. */
export type AttemptKind = 'first' | 'later'

export function attemptKindOf({ delivery }: Work): AttemptKind {
  return delivery.attempt_count === 0 && !delivery.is_replay ? 'first' : 'later'
}

/** How long a delivery is held: an attempt of 5 s, the writing of its result, and some time in the queue before. */
export const leaseMs = 12_000

/** An attempt starts only while so much of the lease is left. */
export const leaseMarginMs = 7_000
