import type { Sql } from '@licensing/database/connect'

/** The version of an application's list; 0 if nothing was ever revoked. */
export async function findVersion(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ version: bigint }[]>`
    select version from revocations
    where application_id = ${applicationId} order by version desc limit 1`
  return Number(row?.version ?? 0n)
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
