/** How an endpoint answered the attempts that were written down together. */
export interface EndpointTally {
  endpoint_id: string
  last_success_at: Date | null
  last_failure_at: Date | null
  /** After the last success. */
  failures: number
  first_failure_at: Date | null
  /** One of them was `410 Gone`. */
  is_gone: boolean
}

interface Ended {
  endpointId: string
  endedAt: Date
  delivered: boolean
  responseCode: number | null
}

/** One tally for each endpoint among the attempts. */
export function tallyEndpoints(attempts: Ended[]): EndpointTally[] {
  const inOrder = attempts.toSorted((a, b) => a.endedAt.getTime() - b.endedAt.getTime())
  const tallies = new Map<string, EndpointTally>()
  for (const { endpointId, endedAt, delivered, responseCode } of inOrder) {
    const tally = tallies.get(endpointId) ?? {
      endpoint_id: endpointId,
      last_success_at: null,
      last_failure_at: null,
      failures: 0,
      first_failure_at: null,
      is_gone: false,
    }
    if (delivered) {
      Object.assign(tally, { last_success_at: endedAt, failures: 0, first_failure_at: null, is_gone: false })
    } else {
      tally.last_failure_at = endedAt
      tally.failures += 1
      tally.first_failure_at ??= endedAt
      tally.is_gone ||= responseCode === 410
    }
    tallies.set(endpointId, tally)
  }
  return [...tallies.values()]
}

export interface EndpointHealth {
  endpoint_id: string
  pending: number
  last_success_at: Date | null
  last_failure_at: Date | null
  /** The first failure after the last success, and how many there were since. */
  failing_since: Date | null
  failures: number
  /** The alert about these failures is made. */
  is_alerted: boolean
}

/** The vendor is alerted at so many failures in a row, or at the first `410 Gone`. */
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

/** Health after what a tally says. Tallies of senders that write at the same time come in any order. */
export function healthAfter(
  health: EndpointHealth,
  tally: EndpointTally & { pending_change: number },
): EndpointHealth {
  const lastSuccessAt = later(health.last_success_at, tally.last_success_at)
  return {
    ...health,
    ...failuresAfter(health, tally, lastSuccessAt?.getTime() ?? -Infinity),
    pending: health.pending + tally.pending_change,
    last_success_at: lastSuccessAt,
    last_failure_at: later(health.last_failure_at, tally.last_failure_at),
  }
}

/** Whether a tally that health includes makes the vendor look at the endpoint. */
export function isAlarming(health: EndpointHealth, tally: EndpointTally): boolean {
  return !health.is_alerted && (health.failures >= failuresToAlert || isGone(health, tally))
}

/** Whether the endpoint answered `410 Gone` after its last success. */
export function isGone({ failing_since: since }: EndpointHealth, tally: EndpointTally): boolean {
  return tally.is_gone && since !== null && tally.first_failure_at! >= since
}

type Failures = Pick<EndpointHealth, 'failing_since' | 'failures' | 'is_alerted'>

const none: Failures = { failing_since: null, failures: 0, is_alerted: false }

function failuresAfter(health: EndpointHealth, tally: EndpointTally, successMs: number): Failures {
  const isNewSuccess = tally.last_success_at !== null && tally.last_success_at.getTime() === successMs
  const before = isNewSuccess && !isAfter(health.failing_since, successMs) ? none : health
  if (tally.first_failure_at === null || tally.first_failure_at.getTime() < successMs) return pick(before)
  return {
    failing_since: earlier(before.failing_since, tally.first_failure_at),
    failures: before.failures + tally.failures,
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
