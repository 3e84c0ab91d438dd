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
