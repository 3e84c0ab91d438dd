/** A delivery whose next attempt is to be made. */
export interface Sendable {
  id: string
  applicationId: string
  endpointId: string
  eventId: string
  body: string
  traceParent: string | null
  createdAt: Date
  /** Attempts made so far, and those of them that the schedule asked for. */
  attemptCount: number
  scheduledAttempts: number
  /** Asked for by a person: no failure of it counts, and it is not retried by itself. */
  isReplay: boolean
}

/** A delivery that this process holds under a lease. */
export interface Work {
  delivery: Sendable
  claimId: string
  /** performance.now() at which the lease may be over. */
  leaseEndsAt: number
}

/** First attempts do not wait behind retries and replays. */
export type Lane = 'first' | 'later'

export function laneOf({ delivery }: Work): Lane {
  return delivery.attemptCount === 0 && !delivery.isReplay ? 'first' : 'later'
}
