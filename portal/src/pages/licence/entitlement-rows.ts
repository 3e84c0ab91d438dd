import type { LicenceDetail } from '../../api/licences.ts'

export interface EntitlementRow {
  key: string
  kind: 'feature' | 'limit'
  /** The value that products get now; undefined if they get none. */
  effective: LicenceDetail['effective'][number] | undefined
  /** The value that the licence was issued with; null if the entitlement did not exist then. */
  snapshot: string | null
  /** The value that the plan has now; undefined if it is the same. */
  plan: string | null | undefined
  override: LicenceDetail['overrides'][number] | undefined
}

/** All entitlements of a licence, by key. */
export function entitlementRows(licence: LicenceDetail): EntitlementRow[] {
  const { effective, entitlements, overrides, plan_drift: drift } = licence
  const kinds = new Map(
    [...drift, ...overrides, ...effective, ...entitlements].map(({ key, kind }) => [key, kind]),
  )
  return [...kinds]
    .map(([key, kind]) => ({
      key,
      kind,
      effective: effective.find((entry) => entry.key === key),
      snapshot: entitlements.find((entry) => entry.key === key)?.value ?? null,
      plan: drift.find((entry) => entry.key === key)?.plan_value,
      override: overrides.find((entry) => entry.key === key),
    }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
}
