import type { Sql } from '@licensing/database/connect'
import { insertRows } from '@licensing/database/row-queries'
import type { NewRootKey } from './root-key.ts'

export interface RootKeyRow {
  kid: string
  generation: number
  private_key: Buffer
  created_at: Date
}

/** The newest root keys by application; applications without one are not in the map. */
export async function findNewestRootKeys(sql: Sql, applicationIds: string[]): Promise<Map<string, string>> {
  const rows = await sql<{ application_id: string; kid: string }[]>`
    select distinct on (application_id) application_id, kid from root_keys
    where application_id = any(${applicationIds}::text[])
    order by application_id, generation desc`
  return new Map(rows.map((row) => [row.application_id, row.kid]))
}

/** Stores first root keys. Skips applications for which another replica has stored one. */
export async function insertFirstRootKeys(sql: Sql, keys: NewRootKey[]): Promise<void> {
  const rows = keys.map(({ kid, applicationId: application_id, privateKey: private_key }) => {
    return { kid, application_id, generation: 1, private_key }
  })
  await insertRows(sql, 'root_keys', rows, sql`on conflict (application_id, generation) do nothing`)
}

export async function insertNextRootKey(sql: Sql, key: NewRootKey, generation: number): Promise<void> {
  await sql`
    insert into root_keys (kid, application_id, generation, private_key)
    values (${key.kid}, ${key.applicationId}, ${generation}, ${key.privateKey})`
}

/** The root keys of an application that are not retired, newest first. */
export async function findCurrentRootKeys(sql: Sql, applicationId: string): Promise<RootKeyRow[]> {
  return sql<RootKeyRow[]>`
    select kid, generation, private_key, created_at from root_keys
    where application_id = ${applicationId} and retired_at is null
    order by generation desc`
}

/** Changes of an application's root keys and the signing of its key sets hold this lock. */
export async function lockRootKeys(sql: Sql, applicationId: string): Promise<void> {
  await sql`select kid from root_keys where application_id = ${applicationId} order by kid for update`
}

/** Retires the root keys older than this generation. @returns their kids */
export async function retireRootKeysBefore(
  sql: Sql,
  applicationId: string,
  generation: number,
): Promise<string[]> {
  const rows = await sql<{ kid: string }[]>`
    update root_keys set retired_at = now()
    where application_id = ${applicationId} and generation < ${generation} and retired_at is null
    returning kid`
  return rows.map((row) => row.kid)
}

export interface SignedKeySetRow {
  root_kid: string
  /** The root key's, to sign again. */
  private_key: Buffer
  digest: Buffer | null
  issued_at: Date | null
  jws: string | null
}

/** The latest key set of each root key that is not retired, newest root key first. */
export async function findSignedKeySets(sql: Sql, applicationId: string): Promise<SignedKeySetRow[]> {
  return sql<SignedKeySetRow[]>`
    select r.kid as root_kid, r.private_key, s.digest, s.issued_at, s.jws
    from root_keys r left join signed_key_sets s on s.root_kid = r.kid
    where r.application_id = ${applicationId} and r.retired_at is null
    order by r.generation desc`
}

export async function writeSignedKeySet(
  sql: Sql,
  set: { rootKid: string; digest: Buffer; issuedAt: Date; jws: string },
): Promise<void> {
  await sql`
    insert into signed_key_sets (root_kid, digest, issued_at, jws)
    values (${set.rootKid}, ${set.digest}, ${set.issuedAt}, ${set.jws})
    on conflict (root_kid) do update
    set digest = excluded.digest, issued_at = excluded.issued_at, jws = excluded.jws`
}
