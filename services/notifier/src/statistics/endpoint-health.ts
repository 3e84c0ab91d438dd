/** How an endpoint answered the attempts of one batch. */
export interface EndpointHealthChange {
  endpoint_id: string
  last_success_at: Date | null
  last_failure_at: Date | null
  /** Failures after the last success, and the time of the first of them. */
  failures: number
  first_failure_at: Date | null
  /** Whether one of these failures was `410 Gone`. */
  is_gone: boolean
}

interface EndedAttempt {
  endpointId: string
  endedAt: Date
  isDelivered: boolean
  responseCode: number | null
}

/** Sums up the attempts: one change for each endpoint. */
export function healthChangesOf(attempts: EndedAttempt[]): EndpointHealthChange[] {
  const inOrder = attempts.toSorted((a, b) => a.endedAt.getTime() - b.endedAt.getTime())
  const changes = new Map<string, EndpointHealthChange>()
  for (const { endpointId, endedAt, isDelivered, responseCode } of inOrder) {
    const change = changes.get(endpointId) ?? {
      endpoint_id: endpointId,
      last_success_at: null,
      last_failure_at: null,
      failures: 0,
      first_failure_at: null,
      is_gone: false,
    }
    if (isDelivered) {
      Object.assign(change, { last_success_at: endedAt, failures: 0, first_failure_at: null, is_gone: false })
    } else {
      change.last_failure_at = endedAt
      change.failures += 1
      change.first_failure_at ??= endedAt
      change.is_gone ||= responseCode === 410
    }
    changes.set(endpointId, change)
  }
  return [...changes.values()]
}

export interface EndpointHealth {
  endpoint_id: string
  pending: number
  last_success_at: Date | null
  last_failure_at: Date | null
  /** The time of the first failure after the last success, and how many failures there were since. */
  failing_since: Date | null
  failures: number
  /** The vendor was alerted about these failures. */
  is_alerted: boolean
}

/** The vendor is alerted at this many failures in a row, or at the first `410 Gone`. */
const failuresToAlert = 6

export function unknownHealth(endpointId: string): EndpointHealth {
  return {
    endpoint_id: endpointId,
    pending: 0,
    last_success_at: null,
    last_failure_at: null,
    failing_since: null,
    failures: 0,
    is_alerted: false,
  }
}

/** The health after a change. Changes of processes that write at the same time may arrive in any order. */
export function healthAfter(
  health: EndpointHealth,
  change: EndpointHealthChange & { pending_change: number },
): EndpointHealth {
  const lastSuccessAt = later(health.last_success_at, change.last_success_at)
  return {
    ...health,
    ...failuresAfter(health, change, lastSuccessAt?.getTime() ?? -Infinity),
    pending: health.pending + change.pending_change,
    last_success_at: lastSuccessAt,
    last_failure_at: later(health.last_failure_at, change.last_failure_at),
  }
}

/** Whether the vendor is to be alerted after a change that `health` includes. */
export function isAlarming(health: EndpointHealth, change: EndpointHealthChange): boolean {
  return !health.is_alerted && (health.failures >= failuresToAlert || isGone(health, change))
}

/** Whether the endpoint answered `410 Gone` after its last success. */
export function isGone({ failing_since: since }: EndpointHealth, change: EndpointHealthChange): boolean {
  return change.is_gone && since !== null && change.first_failure_at! >= since
}

type Failures = Pick<EndpointHealth, 'failing_since' | 'failures' | 'is_alerted'>

const none: Failures = { failing_since: null, failures: 0, is_alerted: false }

function failuresAfter(health: EndpointHealth, change: EndpointHealthChange, successMs: number): Failures {
  const isNewSuccess = change.last_success_at !== null && change.last_success_at.getTime() === successMs
  const before = isNewSuccess && !isAfter(health.failing_since, successMs) ? none : health
  if (change.first_failure_at === null || change.first_failure_at.getTime() < successMs) return pick(before)
  return {
    failing_since: earlier(before.failing_since, change.first_failure_at),
    failures: before.failures + change.failures,
    is_alerted: before.is_alerted,
  }
}

function pick({ failing_since, failures, is_alerted }: Failures): Failures {
  return { failing_since, failures, is_alerted }
}

function isAfter(time: Date | null, ms: number): boolean {
  return time !== null && time.getTime() > ms
}

function later(a: Date | null, b: Date | null): Date | null {
  return a && b ? new Date(Math.max(a.getTime(), b.getTime())) : (a ?? b)
}

function earlier(a: Date | null, b: Date | null): Date | null {
  return a && b ? new Date(Math.min(a.getTime(), b.getTime())) : (a ?? b)
}
