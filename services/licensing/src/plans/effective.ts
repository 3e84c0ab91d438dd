import type { EntitlementKind, EntitlementSource, LicenceStatus } from '@licensing/proto/closed-sets'
import { statuses } from '../lifecycle/licence.ts'
import type { SnapshotEntitlement } from './snapshot.ts'

/** A value of one licence that replaces the one of its snapshot, or adds to the snapshot. */
export interface OverrideValue {
  key: string
  kind: EntitlementKind
  value: string
}

/** A value that products get, with its origin. */
export interface EffectiveEntitlement extends OverrideValue {
  from: EntitlementSource
}

/**
 * The entitlements in a token of the licence, sorted by key: the values of the snapshot, replaced and extended by
 * overrides. A downgraded licence has only the defaults of its snapshot (docs/guides/licences.md, "Other values for one customer"). A definition that is newer
 * than the snapshot is left out, because the snapshot is captured at issue time (docs/guides/concepts.md, "Snapshots").
 *
 * @param overrides the overrides that have not ended
 */
export function effectiveEntitlements(
  status: LicenceStatus,
  captured: readonly SnapshotEntitlement[],
  overrides: readonly OverrideValue[],
): EffectiveEntitlement[] {
  if (statuses[status].grants === 'defaults') {
    return captured.map(({ key, kind, default: value }) => ({ key, kind, value, from: 'default' }))
  }
  const byKey = new Map<string, EffectiveEntitlement>()
  for (const { key, kind, value } of captured) byKey.set(key, { key, kind, value, from: 'snapshot' })
  for (const { key, kind, value } of overrides) byKey.set(key, { key, kind, value, from: 'override' })
  return [...byKey.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** Values by entitlement key, as tokens contain them. */
export type Values = Readonly<Record<string, string>>

export function valuesOf(effective: readonly EffectiveEntitlement[]): Values {
  return Object.fromEntries(effective.map(({ key, value }) => [key, value]))
}
