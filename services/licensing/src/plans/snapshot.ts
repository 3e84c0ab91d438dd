import type { ResolvedEntitlement } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'

/** An entitlement of a licence. A downgraded licence has the `default` instead of the value. */
export interface SnapshotEntitlement {
  key: string
  kind: EntitlementKind
  value: string
  default: string
}

/** Entitlements as they are stored: equal ones in any order have the same text, and so the same snapshot. */
export function storedEntitlements(entitlements: ResolvedEntitlement[]): SnapshotEntitlement[] {
  return entitlements
    .map(({ key, kind, value, default: definitionDefault }): SnapshotEntitlement => {
      return { key, kind: readMember('entitlementKind', kind), value, default: definitionDefault }
    })
    .sort((a, b) => (a.key < b.key ? -1 : 1))
}
