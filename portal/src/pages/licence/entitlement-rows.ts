import type { LicenceDetail } from '../../api/licences.ts'

export interface EntitlementRow {
  key: string
  kind: 'feature' | 'limit'
  /** What products get now; undefined if they get nothing. */
  effective: LicenceDetail['effective'][number] | undefined
  /** What the licence was issued with; null if it was not. */
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
