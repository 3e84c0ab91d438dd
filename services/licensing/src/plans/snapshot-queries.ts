import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { SnapshotEntitlement } from './snapshot.ts'

/**
 * The part of a statement that stores the snapshots of inserted licences. `plan` has their locked plans, and `inserted`
 * the new licences. A snapshot is stored with the first licence that has it, so a plan that is changed often leaves
 * no unused snapshots.
 */
export const storeSnapshotsOfInserted = (sql: Sql) => sql`
  insert into snapshots (id, entitlements)
  select distinct on (snapshot_id) snapshot_id, entitlements from plan
  where id in (select plan_id from inserted) and not exists (select from snapshots s where s.id = plan.snapshot_id)
  order by snapshot_id
  on conflict (id) do nothing`

/** Stores the current snapshots of plans that licences and purchases get. The transaction has locked the plans. */
export async function storeSnapshots(
  sql: Sql,
  used: { plan_id: string | null; snapshot_id: string | null }[],
): Promise<void> {
  if (used.length === 0) return
  const rows = used.map(({ plan_id, snapshot_id }) => ({ plan_id, snapshot_id }))
  await sql`
    insert into snapshots (id, entitlements)
    select distinct on (p.snapshot_id) p.snapshot_id, p.entitlements
    from plans p
    join ${rowsOf(sql, { plan_id: 'text', snapshot_id: 'text' }, rows)} used
      on used.plan_id = p.id and used.snapshot_id = p.snapshot_id
    where not exists (select from snapshots s where s.id = p.snapshot_id)
    order by p.snapshot_id
    on conflict (id) do nothing`
}

export async function findEntitlements(sql: Sql, snapshotId: string): Promise<SnapshotEntitlement[]> {
  const [row] = await sql<{ entitlements: SnapshotEntitlement[] }[]>`
    select entitlements from snapshots where id = ${snapshotId}`
  return row!.entitlements
}

/** The entitlements of snapshots, by their ids. */
export async function findAllEntitlements(
  sql: Sql,
  ids: string[],
): Promise<Map<string, SnapshotEntitlement[]>> {
  const rows = await sql<{ id: string; entitlements: SnapshotEntitlement[] }[]>`
    select id, entitlements from snapshots where id = any(${ids}::text[])`
  return new Map(rows.map(({ id, entitlements }) => [id, entitlements]))
}

/** The entitlements that a plan grants now. */
export async function findPlanEntitlements(
  sql: Sql,
  planId: string,
): Promise<{ snapshot_id: string; entitlements: SnapshotEntitlement[] }> {
  const [row] = await sql<{ snapshot_id: string; entitlements: SnapshotEntitlement[] }[]>`
    select snapshot_id, entitlements from plans where id = ${planId}`
  return row!
}
