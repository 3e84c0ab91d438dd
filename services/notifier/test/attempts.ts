import { randomUUID } from 'node:crypto'
import type { FinishedAttempt } from '../src/dispatch/attempt-queries.ts'

/** An attempt that was acknowledged. */
export function givenAttempt(deliveryId: string, changes: Partial<FinishedAttempt> = {}): FinishedAttempt {
  const at = new Date()
  return {
    applicationId: 'app_1',
    deliveryId,
    endpointId: 'whe_1',
    claimId: randomUUID(),
    isReplay: false,
    at,
    endedAt: at,
    durationMs: 1,
    isDelivered: true,
    responseCode: 200,
    error: null,
    responseExcerpt: null,
    retryAt: null,
    attempt: 1,
    isLast: false,
    latencyMs: 1,
    ...changes,
  }
}
