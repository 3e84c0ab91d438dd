import type { ResolvedEntitlement } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { createHash } from 'node:crypto'

/** An entitlement of a licence. A downgraded licence has the `default` instead of the value. */
export interface SnapshotEntitlement {
  key: string
  kind: EntitlementKind
  value: string
  default: string
}

export interface NewSnapshot {
  id: string
  entitlementsJson: string
}

/** The snapshot of entitlements. Equal entitlements in any order have the same id. */
export function snapshotOf(entitlements: ResolvedEntitlement[]): NewSnapshot {
  const sorted = entitlements
    .map(({ key, kind, value, default: definitionDefault }): SnapshotEntitlement => {
      return { key, kind: readMember('entitlementKind', kind), value, default: definitionDefault }
    })
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  const entitlementsJson = JSON.stringify(sorted)
  return { id: createHash('sha256').update(entitlementsJson).digest('base64url'), entitlementsJson }
}
