import type { Sql } from '@licensing/database/connect'
import type { HistoryType } from '@licensing/proto/closed-sets'

const migrated: HistoryType = 'migrated'

export interface ImportedLicence {
  id: string
  key: string
  /** Whether its legacy key has been exchanged before. */
  migrated: boolean
}

export async function findByLegacyKey(
  sql: Sql,
  applicationId: string,
  legacyKey: string,
): Promise<ImportedLicence | undefined> {
  const [row] = await sql<ImportedLicence[]>`
    select id, key, migrated_at is not null as migrated from licences
    where application_id = ${applicationId} and legacy_key = ${legacyKey}`
  return row
}

/** Marks the first exchange of a legacy key and writes it into the history; does nothing at a later one. */
export async function recordMigration(sql: Sql, licenceId: string): Promise<void> {
  await sql`
    with first as (
      update licences set migrated_at = clock_timestamp() where id = ${licenceId} and migrated_at is null
      returning id, status, migrated_at
    )
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    select id, migrated_at, ${migrated}, status, status, 'product' from first`
}
