import type { Sql } from '@licensing/database/connect'

/** The version of an application's list; 0 where nothing was ever revoked. */
export async function findVersion(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ version: bigint }[]>`
    select version from revocations
    where application_id = ${applicationId} order by version desc limit 1`
  return Number(row?.version ?? 0n)
}

/**
 * Licences revoked after version `since`, up to version `version`, oldest first: each in quotes and with a comma after
 * it. They come as one text: of 100,000 rows this takes 10 ms of CPU, read one by one 64 ms.
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
