import type { Sql } from '@licensing/database/connect'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'
import { inScope } from './licence-queries.ts'
import type { LicenceScope } from './licence-queries.ts'
import { licenceColumns } from './licence-row.ts'
import type { LicenceRow } from './licence-row.ts'

export type DetailRow = LicenceRow & {
  legacy_key: string | null
  entitlements: SnapshotEntitlement[]
  activations: {
    id: string
    fingerprint: string
    host: string
    product_version: string
    created_ms: number
    last_seen_ms: number
  }[]
  call_home: { host: string; product_version: string; seen_ms: number }[]
}

const latestCalls = 50

/** All of a licence's detail in one round trip. */
export async function findDetail(sql: Sql, scope: LicenceScope): Promise<DetailRow | undefined> {
  const [row] = await sql<DetailRow[]>`
    select ${licenceColumns(sql)}, l.legacy_key, s.entitlements,
      (
        select coalesce(json_agg(json_build_object(
          'id', a.id, 'fingerprint', a.fingerprint, 'host', a.host, 'product_version', a.product_version,
          'created_ms', round(extract(epoch from a.created_at) * 1000),
          'last_seen_ms', round(extract(epoch from a.last_seen_at) * 1000)
        ) order by a.id desc), '[]')
        from activations a where a.licence_id = l.id
      ) as activations,
      (
        select coalesce(json_agg(json_build_object(
          'host', c.host, 'product_version', c.product_version,
          'seen_ms', round(extract(epoch from c.seen_at) * 1000)
        ) order by c.position desc), '[]')
        from (
          select position, host, product_version, seen_at from call_homes
          where licence_id = l.id order by position desc limit ${latestCalls}
        ) c
      ) as call_home
    from licences l join snapshots s on s.id = l.snapshot_id
    where ${inScope(sql, scope)}`
  return row
}
