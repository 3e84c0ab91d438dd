import { licenceStatuses, type Licence, type LicenceFilters } from '../../api/licences.ts'
import { oneOf } from '../../api/paged-list.ts'
import type { Plan } from '../../api/plans.ts'
import { useAddress, type Address } from '../../address.ts'
import { Filter, PairFilter, pairsIn } from '../../parts/filters.tsx'

const MAX_PAIRS = 3
const list = 'page'

export function LicenceFilterFields({ plans }: { plans: readonly Plan[] }) {
  return (
    <>
      <Filter
        label="Status"
        name="status"
        list={list}
        options={licenceStatuses.map((status) => [status, status])}
      />
      <Filter
        label="Plan"
        name="plan"
        list={list}
        options={plans.map(({ id, name, status }) => [id, status === 'retired' ? `${name} (retired)` : name])}
      />
      <Filter
        label="Trial"
        name="trial"
        list={list}
        options={[
          ['true', 'trials'],
          ['false', 'no trials'],
        ]}
      />
      <PairFilter label="Metadata" name="metadata" list={list} max={MAX_PAIRS} />
    </>
  )
}

/** The filters in the address, and whether any filter is set. */
export function useLicenceFilters(): { filters: LicenceFilters; isFiltered: boolean } {
  const [address] = useAddress()
  const filters = filtersIn(address)
  const { metadata, ...others } = filters
  const isFiltered =
    Object.values(others).some(Boolean) || address['trial'] === 'false' || metadata !== undefined
  return { filters, isFiltered }
}

function filtersIn(address: Address): LicenceFilters {
  const pairs = pairsIn(address, 'metadata').slice(0, MAX_PAIRS)
  const { status, plan, trial } = address
  return {
    status: oneOf(licenceStatuses, status),
    plan,
    trial: trial === 'true' || trial === 'false' ? trial === 'true' : undefined,
    ...(pairs.length > 0 && { metadata: Object.fromEntries(pairs) }),
  }
}

/** Applies the filters to a licence that was found by a search. The service filters only the list. */
export function matches(licence: Licence, { status, plan, trial, metadata = {} }: LicenceFilters): boolean {
  return (
    (!status || licence.status === status) &&
    (!plan || licence.plan_id === plan) &&
    (trial === undefined || licence.trial === trial) &&
    Object.entries(metadata).every(([name, value]) => licence.metadata[name] === value)
  )
}
