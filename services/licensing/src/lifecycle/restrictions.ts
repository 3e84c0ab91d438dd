import { messageOf } from '@licensing/grpc/fields'
import type { RowOf } from '@licensing/grpc/fields'
import { isDomain } from '@licensing/proto/host-name'
import { RestrictionsSchema } from '@licensing/proto/licensing'
import type { Restrictions } from '@licensing/proto/licensing'

/** Each restriction is a column of a licence. If `max_concurrent` is set, `lease_minutes` is too. */
export type RestrictionColumns = RowOf<typeof RestrictionsSchema>

const maxDomains = 100
const usualLeaseMinutes = 15
// A week.
const maxLeaseMinutes = 10_080

/** The problem of restrictions, or undefined if they are valid. `pointer` leads from the restrictions to the invalid value. */
export function problemOfRestrictions(
  restrictions: Restrictions,
): { pointer: string; problem: string } | undefined {
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

/** The columns of valid restrictions; null if there are none. */
export function restrictionColumns(restrictions: Restrictions | null): RestrictionColumns {
  const { domains = [], maxActivations = null, maxSeats = null, maxConcurrent = null } = restrictions ?? {}
  return {
    domains: domains.map((domain) => domain.toLowerCase()),
    max_activations: maxActivations,
    max_seats: maxSeats,
    max_concurrent: maxConcurrent,
    lease_minutes: maxConcurrent === null ? null : (restrictions?.leaseMinutes ?? usualLeaseMinutes),
  }
}

/** The restrictions in the form of the REST API; null if there are none. */
export function shownRestrictions(row: RestrictionColumns): object | null {
  const { domains, max_activations, max_seats, max_concurrent, lease_minutes } = row
  const limits = { max_activations, max_seats, max_concurrent, lease_minutes }
  const set = Object.entries({ domains: domains.length > 0 ? domains : null, ...limits }).filter(
    ([, value]) => value !== null,
  )
  return set.length === 0 ? null : Object.fromEntries(set)
}

/** The restrictions in answers; null if there are none. */
export function restrictionsMessage(row: RestrictionColumns): Restrictions | null {
  return shownRestrictions(row) && messageOf(RestrictionsSchema, row)
}
