import type { Sql } from '@licensing/database/connect'
import { LRUCache } from 'lru-cache'
import type { LicenceStatus } from '../licences/licence.ts'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'

/** Values by entitlement key, as tokens carry them. */
type Values = Readonly<Record<string, string>>

interface Snapshot {
  captured: Values
  defaults: Values
}

/** What tokens say of snapshots. */
export interface Snapshots {
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
  return {
    async valuesOf({ snapshot_id: id, status }) {
      let snapshot = kept.get(id)
      if (!snapshot) {
        snapshot = await read(sql, id)
        kept.set(id, snapshot)
      }
      return status === 'downgraded' ? snapshot.defaults : snapshot.captured
    },
  }
}

async function read(sql: Sql, id: string): Promise<Snapshot> {
  const [row] = await sql<{ entitlements: SnapshotEntitlement[] }[]>`
    select entitlements from snapshots where id = ${id}`
  const { entitlements } = row!
  return {
    captured: Object.fromEntries(entitlements.map(({ key, value }) => [key, value])),
    defaults: Object.fromEntries(entitlements.map(({ key, default: usual }) => [key, usual])),
  }
}
