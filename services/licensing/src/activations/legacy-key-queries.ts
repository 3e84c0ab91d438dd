import type { Sql } from '@licensing/database/connect'
import { inOrderOf, rowsOf } from '@licensing/database/row-queries'
import type { HistoryType } from '@licensing/proto/closed-sets'

const migrated: HistoryType = 'migrated'

export interface ImportedLicence {
  id: string
  key: string
  /** Whether a product has already exchanged its legacy key. */
  migrated: boolean
}

/** The licences of legacy keys, in the order of the request. */
export async function findByLegacyKeys(
  sql: Sql,
  asked: { applicationId: string; legacyKey: string }[],
): Promise<(ImportedLicence | undefined)[]> {
  const given = asked.map(({ applicationId: application_id, legacyKey: legacy_key }) => {
    return { application_id, legacy_key }
  })
  const rows = await sql<(ImportedLicence & { ordinality: bigint })[]>`
    select asked.ordinality, l.id, l.key, l.migrated_at is not null as migrated
    from ${rowsOf(sql, { application_id: 'text', legacy_key: 'text' }, given)} asked
    join licences l on l.application_id = asked.application_id and l.legacy_key = asked.legacy_key`
  return inOrderOf(asked, rows)
}

/** Marks the first exchange of a legacy key, with an entry in the history. Later calls change nothing. */
export async function recordMigration(sql: Sql, licenceId: string): Promise<void> {
  await sql`
    with first as (
      update licences set migrated_at = clock_timestamp() where id = ${licenceId} and migrated_at is null
      returning id, status, migrated_at
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    select id, migrated_at, ${migrated}, status, status, 'product' from first`
}
