import { invalid } from '@licensing/grpc/errors'
import { isDomain } from '@licensing/proto/host-name'
import type { Restrictions } from '@licensing/proto/licensing'

const maxDomains = 100
const usualLeaseMinutes = 15
// A week.
const maxLeaseMinutes = 10_080

export interface CheckedRestrictions {
  domains: string[]
  maxActivations: number | null
  maxSeats: number | null
  maxConcurrent: number | null
  /** Set if and only if `maxConcurrent` is. */
  leaseMinutes: number | null
}

/** @throws ServiceError `validation_failed` with a pointer to the invalid value */
export function checkRestrictions(restrictions: Restrictions | undefined): CheckedRestrictions {
  const domains = (restrictions?.domains ?? []).map((domain) => domain.toLowerCase())
  const pointer = '/restrictions'
  if (domains.length > maxDomains) throw invalid(`${pointer}/domains`, `at most ${maxDomains} domains`)
  const wrong = domains.findIndex((domain) => !isDomain(domain))
  if (wrong >= 0) throw invalid(`${pointer}/domains/${wrong}`, 'must be a host name, or *. and a host name')
  return {
    domains,
    maxActivations: atLeastOne(restrictions?.maxActivations, `${pointer}/max_activations`),
    maxSeats: atLeastOne(restrictions?.maxSeats, `${pointer}/max_seats`),
    maxConcurrent: atLeastOne(restrictions?.maxConcurrent, `${pointer}/max_concurrent`),
    leaseMinutes: checkLease(restrictions, `${pointer}/lease_minutes`),
  }
}

function checkLease(restrictions: Restrictions | undefined, pointer: string): number | null {
  const { maxConcurrent, leaseMinutes } = restrictions ?? {}
  if (maxConcurrent === undefined) {
    if (leaseMinutes !== undefined) throw invalid(pointer, 'needs max_concurrent beside it')
    return null
  }
  if (leaseMinutes === undefined) return usualLeaseMinutes
  if (leaseMinutes < 1 || leaseMinutes > maxLeaseMinutes) {
    throw invalid(pointer, `must be a whole number from 1 to ${maxLeaseMinutes}`)
  }
  return leaseMinutes
}

function atLeastOne(value: number | undefined, pointer: string): number | null {
  if (value === undefined) return null
  if (value < 1) throw invalid(pointer, 'must be at least 1')
  return value
}
