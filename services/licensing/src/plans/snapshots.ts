import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { LRUCache } from 'lru-cache'
import { grants } from '../lifecycle/licence.ts'
import type { SnapshotEntitlement } from './snapshot.ts'
import { findEntitlements } from './snapshot-queries.ts'

/** Values by entitlement key, as tokens carry them. */
type Values = Readonly<Record<string, string>>

interface Snapshot {
  entitlements: readonly SnapshotEntitlement[]
  captured: Values
  defaults: Values
}

/** What licences were given, by the ids that their rows carry. */
export interface Snapshots {
  /** As it was captured, whatever became of the licence. */
  entitlementsOf(licence: { snapshot_id: string }): Promise<readonly SnapshotEntitlement[]>
  /** A downgraded licence works on the defaults; its snapshot stays as it was captured (decisions 4). */
  valuesOf(licence: { snapshot_id: string; status: LicenceStatus }): Promise<Values>
}

const mostEntitlements = 500_000

/** Snapshots, kept once read: a snapshot's id is a hash of its content, so it never changes. */
export function createSnapshots(sql: Sql): Snapshots {
  const kept = new LRUCache<string, Snapshot>({
    maxSize: mostEntitlements,
    sizeCalculation: ({ captured }) => 1 + Object.keys(captured).length,
  })
  const find = async (id: string): Promise<Snapshot> => {
    let snapshot = kept.get(id)
    if (!snapshot) {
      snapshot = await read(sql, id)
      kept.set(id, snapshot)
    }
    return snapshot
  }
  return {
    entitlementsOf: async (licence) => (await find(licence.snapshot_id)).entitlements,
    async valuesOf(licence) {
      const snapshot = await find(licence.snapshot_id)
      return grants[licence.status] === 'defaults' ? snapshot.defaults : snapshot.captured
    },
  }
}

async function read(sql: Sql, id: string): Promise<Snapshot> {
  const entitlements = await findEntitlements(sql, id)
  return {
    entitlements,
    captured: Object.fromEntries(entitlements.map(({ key, value }) => [key, value])),
    defaults: Object.fromEntries(entitlements.map(({ key, default: usual }) => [key, usual])),
  }
}
