import type { Sql } from '@licensing/database/connect'
import type { JWK } from 'jose'

export interface SigningKeyRow {
  kid: string
  application_id: string
  public_jwk: JWK
  private_key: Buffer
  retired_at: Date | null
}

const columns = (sql: Sql) => sql`kid, application_id, public_jwk, private_key, retired_at`

/** The key in use, and those whose tokens may still be good: retired less than `lifeSeconds` ago. */
export async function findSigningKeys(
  sql: Sql,
  applicationId: string,
  lifeSeconds: number,
): Promise<SigningKeyRow[]> {
  return sql<SigningKeyRow[]>`
    select ${columns(sql)} from signing_keys
    where application_id = ${applicationId}
      and (retired_at is null or retired_at > now() - ${lifeSeconds}::int * interval '1 second')
    order by created_at desc`
}

/** Stores a new key unless the application has one in use, by whichever replica. */
export async function insertSigningKey(
  sql: Sql,
  key: { kid: string; applicationId: string; publicJwk: JWK; privateKey: Buffer },
): Promise<void> {
  await sql`
    insert into signing_keys (kid, application_id, public_jwk, private_key)
    values (${key.kid}, ${key.applicationId}, ${JSON.stringify(key.publicJwk)}::text::jsonb, ${key.privateKey})
    on conflict (application_id) where retired_at is null do nothing`
}

/** Takes the key in use out of it. @returns the kids retired */
export async function retireSigningKeys(sql: Sql, applicationId: string | undefined): Promise<string[]> {
  const rows = await sql<{ kid: string }[]>`
    update signing_keys set retired_at = now()
    where retired_at is null ${applicationId === undefined ? sql`` : sql`and application_id = ${applicationId}`}
    returning kid`
  return rows.map((row) => row.kid)
}
