import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { LRUCache } from 'lru-cache'
import { statuses } from '../lifecycle/licence.ts'
import { effectiveEntitlements, valuesOf } from './effective.ts'
import type { OverrideValue, Values } from './effective.ts'
import { findEntitlements, findPlanEntitlements } from './snapshot-queries.ts'
import type { SnapshotEntitlement } from './snapshot.ts'

interface Snapshot {
  entitlements: readonly SnapshotEntitlement[]
  /** Token values without overrides. */
  values: Values
  /** Token values of a downgraded licence. */
  defaults: Values
}

interface OverriddenLicence {
  snapshot_id: string
  status: LicenceStatus
  /** The overrides that have not ended. */
  overrides: readonly OverrideValue[]
}

/** Entitlements of licences and plans, cached by snapshot id: the id is a hash of the content, which never changes. */
export interface Snapshots {
  /** The entitlements that the licence got at issue, in every status. */
  entitlementsOf(licence: { snapshot_id: string }): Promise<readonly SnapshotEntitlement[]>
  /** The entitlements that a licence issued now on this plan would get. */
  entitlementsOfPlan(plan: { id: string; snapshot_id: string }): Promise<readonly SnapshotEntitlement[]>
  /** Token values; see `effectiveEntitlements`. */
  valuesOf(licence: OverriddenLicence): Promise<Values>
}

const maxEntitlements = 500_000

export function createSnapshots(sql: Sql): Snapshots {
  const cached = new LRUCache<string, Snapshot>({
    maxSize: maxEntitlements,
    sizeCalculation: ({ entitlements }) => 1 + entitlements.length,
  })
  const cache = (id: string, entitlements: SnapshotEntitlement[]): Snapshot => {
    const snapshot = {
      entitlements,
      values: valuesOf(effectiveEntitlements('active', entitlements, [])),
      defaults: valuesOf(effectiveEntitlements('downgraded', entitlements, [])),
    }
    cached.set(id, snapshot)
    return snapshot
  }
  const find = async (id: string) => cached.get(id) ?? cache(id, await findEntitlements(sql, id))
  return {
    entitlementsOf: async (licence) => (await find(licence.snapshot_id)).entitlements,
    async entitlementsOfPlan(plan) {
      const known = cached.get(plan.snapshot_id)
      if (known) return known.entitlements
      const { snapshot_id: id, entitlements } = await findPlanEntitlements(sql, plan.id)
      return cache(id, entitlements).entitlements
    },
    async valuesOf({ snapshot_id: id, status, overrides }) {
      const { entitlements, values, defaults } = await find(id)
      if (statuses[status].grants === 'defaults') return defaults
      if (overrides.length === 0) return values
      return valuesOf(effectiveEntitlements(status, entitlements, overrides))
    },
  }
}
