import type { Sql } from '@licensing/database/connect'
import type { NewSnapshot, SnapshotEntitlement } from './snapshot.ts'

export async function insertSnapshots(sql: Sql, snapshots: NewSnapshot[]): Promise<void> {
  await sql`
    insert into snapshots (id, entitlements)
    select id, entitlements::jsonb
    from unnest(
      ${snapshots.map((snapshot) => snapshot.id)}::text[],
      ${snapshots.map((snapshot) => snapshot.entitlementsJson)}::text[]
    ) as snapshot (id, entitlements)
    order by id
    on conflict (id) do nothing`
}

export async function findEntitlements(sql: Sql, snapshotId: string): Promise<SnapshotEntitlement[]> {
  const [row] = await sql<{ entitlements: SnapshotEntitlement[] }[]>`
    select entitlements from snapshots where id = ${snapshotId}`
  return row!.entitlements
}
