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
  const wrong = problemOfRestrictions(restrictions)
  if (wrong) throw invalid(`/restrictions${wrong.pointer}`, wrong.problem)
  const { domains = [], maxActivations = null, maxSeats = null, maxConcurrent = null } = restrictions ?? {}
  return {
    domains: domains.map((domain) => domain.toLowerCase()),
    maxActivations,
    maxSeats,
    maxConcurrent,
    leaseMinutes: maxConcurrent === null ? null : (restrictions?.leaseMinutes ?? usualLeaseMinutes),
  }
}

/** The problem of restrictions, or undefined if they are valid. `pointer` leads from the restrictions to the invalid value. */
export function problemOfRestrictions(
  restrictions: Restrictions | undefined,
): { pointer: string; problem: string } | undefined {
  if (!restrictions) return undefined
  const { domains, maxActivations, maxSeats, maxConcurrent, leaseMinutes } = restrictions
  if (domains.length > maxDomains) return { pointer: '/domains', problem: `at most ${maxDomains} domains` }
  const wrong = domains.findIndex((domain) => !isDomain(domain.toLowerCase()))
  if (wrong >= 0)
    return { pointer: `/domains/${wrong}`, problem: 'must be a host name, or *. and a host name' }
  const counts = { max_activations: maxActivations, max_seats: maxSeats, max_concurrent: maxConcurrent }
  const [small] = Object.entries(counts).find(([, count]) => count !== undefined && count < 1) ?? []
  if (small !== undefined) return { pointer: `/${small}`, problem: 'must be at least 1' }
  const pointer = '/lease_minutes'
  if (leaseMinutes === undefined) return undefined
  if (maxConcurrent === undefined) return { pointer, problem: 'needs max_concurrent beside it' }
  if (leaseMinutes >= 1 && leaseMinutes <= maxLeaseMinutes) return undefined
  return { pointer, problem: `must be a whole number from 1 to ${maxLeaseMinutes}` }
}
