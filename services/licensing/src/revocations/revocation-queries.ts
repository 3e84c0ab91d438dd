import type { Sql } from '@licensing/database/connect'

/** The versions of the lists of applications, in their order; 0 if nothing was ever revoked. */
export async function findVersions(sql: Sql, applicationIds: string[]): Promise<number[]> {
  const rows = await sql<{ application_id: string; version: bigint }[]>`
    select application_id, version
    from unnest(${[...new Set(applicationIds)]}::text[]) as asked (application_id) cross join lateral (
      select version from revocations r
      where r.application_id = asked.application_id order by version desc limit 1
    ) latest`
  const found = new Map(rows.map((row) => [row.application_id, Number(row.version)]))
  return applicationIds.map((id) => found.get(id) ?? 0)
}

/** Locks the lists of applications in the order of their ids. A trigger would lock them in the order of the licences. */
export async function lockLists(sql: Sql, applicationIds: string[]): Promise<void> {
  await sql`
    insert into revocation_lists (application_id)
    select distinct id from unnest(${applicationIds}::text[]) as id order by id on conflict do nothing`
  await sql`
    select from revocation_lists where application_id = any(${applicationIds}::text[])
    order by application_id for update`
}

/**
 * The licences revoked after version `since` and up to `version`, oldest first, each in quotes and followed by a comma. One
 * text instead of rows: 100,000 licences take 10 ms of CPU instead of 64 ms.
 */
export async function findRevoked(
  sql: Sql,
  applicationId: string,
  since: number,
  version: number,
): Promise<string> {
  const [row] = await sql<{ entries: string | null }[]>`
    select string_agg('"' || licence_id || '",', '' order by version) as entries from revocations
    where application_id = ${applicationId} and version > ${since} and version <= ${version}`
  return row?.entries ?? ''
}
