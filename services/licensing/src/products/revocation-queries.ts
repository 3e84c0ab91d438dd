import type { Sql } from '@licensing/database/connect'

/** The version of an application's list; 0 where nothing was ever revoked. */
export async function findVersion(sql: Sql, applicationId: string): Promise<bigint> {
  const [row] = await sql<{ version: bigint }[]>`
    select version from revocation_versions where application_id = ${applicationId}`
  return row?.version ?? 0n
}

/** Licences revoked after version `since`, up to version `version`, oldest first. */
export async function findRevoked(
  sql: Sql,
  applicationId: string,
  since: bigint,
  version: bigint,
): Promise<string[]> {
  const rows = await sql<{ licence_id: string }[]>`
    select licence_id from revocations
    where application_id = ${applicationId} and version > ${since} and version <= ${version}
    order by version`
  return rows.map((row) => row.licence_id)
}
