import type { ResolvedEntitlement } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { createHash } from 'node:crypto'

/** What a licence is entitled to; `default` is what a downgraded one runs on. */
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

/** The snapshot of these entitlements: equal ones have the same id, whatever order they come in. */
export function snapshotOf(entitlements: ResolvedEntitlement[]): NewSnapshot {
  const sorted = entitlements
    .map(({ key, kind, value, default: ofDefinition }): SnapshotEntitlement => {
      return { key, kind: readMember('entitlementKind', kind), value, default: ofDefinition }
    })
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  const entitlementsJson = JSON.stringify(sorted)
  return { id: createHash('sha256').update(entitlementsJson).digest('base64url'), entitlementsJson }
}
