import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { SecretTable } from '@licensing/database/re-encryption'
import type { JWK } from 'jose'

export interface SigningKeyRow {
  kid: string
  public_jwk: JWK
  private_key: Buffer
  /** Whether `signs_from` has passed. The latest such key signs. */
  signs: boolean
}

export interface NewSigningKey {
  kid: string
  applicationId: string
  publicJwk: JWK
  privateKey: Buffer
}

/**
 * An application's keys, latest first: the next key, the current key, keys retired less than `keptSeconds` ago, and keys
 * with offline tokens that have not ended.
 */
export async function findSigningKeys(
  sql: Sql,
  applicationId: string,
  keptSeconds: number,
): Promise<SigningKeyRow[]> {
  return sql<SigningKeyRow[]>`
    select kid, public_jwk, private_key, signs_from <= now() as signs from signing_keys
    where application_id = ${applicationId}
      and (
        retired_at is null or retired_at > now() - ${keptSeconds}::float8 * interval '1 second'
        or offline_until > now()
      )
    order by signs_from desc, created_at desc`
}

/** Stores an application's first key, unless another replica has stored one. */
export async function insertFirstSigningKey(sql: Sql, key: NewSigningKey): Promise<void> {
  await sql`
    insert into signing_keys (kid, application_id, public_jwk, private_key)
    values (${key.kid}, ${key.applicationId}, ${JSON.stringify(key.publicJwk)}::text::jsonb, ${key.privateKey})
    on conflict (application_id) where retired_at is null do nothing`
}

/** Publishes new keys. In `leadSeconds` they replace the current keys of their applications. */
export async function insertNextSigningKeys(
  sql: Sql,
  keys: NewSigningKey[],
  leadSeconds: number,
): Promise<void> {
  const applications = keys.map((key) => key.applicationId)
  const takesOver = sql`now() + ${leadSeconds}::float8 * interval '1 second'`
  await sql`
    update signing_keys set retired_at = ${takesOver}
    where retired_at is null and application_id = any(${applications}::text[])`
  const rows = keys.map(({ kid, applicationId, publicJwk: public_jwk, privateKey: private_key }) => {
    return { kid, application_id: applicationId, public_jwk, private_key }
  })
  await sql`
    insert into signing_keys (kid, application_id, public_jwk, private_key, signs_from)
    select kid, application_id, public_jwk, private_key, ${takesOver} from ${rowsOf(sql, 'signing_keys', rows)} next`
}

/** Makes everything that these keys signed invalid. */
export async function deleteSigningKeysOf(sql: Sql, applicationIds: string[]): Promise<void> {
  await sql`delete from signing_keys where application_id = any(${applicationIds}::text[])`
}

/** Makes a key verify at least until this time. @returns false if the key does not exist any more */
export async function keepSigningKeyUntil(sql: Sql, kid: string, until: Date): Promise<boolean> {
  const { count } = await sql`
    update signing_keys set offline_until = greatest(offline_until, ${until}) where kid = ${kid}`
  return count === 1
}

/** Applications that have keys; only `applicationId` if it is given. */
export async function findApplicationsWithKeys(
  sql: Sql,
  applicationId: string | undefined,
): Promise<string[]> {
  const rows = await sql<{ application_id: string }[]>`
    select application_id from signing_keys
    where retired_at is null ${applicationId === undefined ? sql`` : sql`and application_id = ${applicationId}`}
    order by application_id`
  return rows.map((row) => row.application_id)
}

/** Allows one rotation at a time, because two would give an application two next keys. */
export async function lockSigningKeys(sql: Sql): Promise<void> {
  await sql`lock table signing_keys in share row exclusive mode`
}

/** The private keys of a table, to encrypt them again. */
export function privateKeysOf(sql: Sql, table: 'signing_keys' | 'root_keys'): SecretTable {
  return {
    list: async (afterKid, limit) =>
      sql<{ id: string; secret: Buffer }[]>`
        select kid as id, private_key as secret from ${sql(table)}
        where kid > ${afterKid} order by kid limit ${limit}`,
    async replace(kid, former, next) {
      const replaced = await sql`
        update ${sql(table)} set private_key = ${next}
        where kid = ${kid} and private_key = ${Buffer.from(former)}`
      return replaced.count > 0
    },
  }
}

/** Deletes keys that no longer verify anything. */
export async function deleteOldSigningKeys(sql: Sql, keptSeconds: number): Promise<void> {
  await sql`
    delete from signing_keys
    where retired_at < now() - ${keptSeconds}::float8 * interval '1 second'
      and (offline_until is null or offline_until < now())`
}
