import type { Sql } from '@licensing/database/connect'

export interface SignedKeySetRow {
  root_kid: string
  /** Of the root key, for signing again. */
  private_key: Buffer
  digest: Buffer | null
  issued_at: Date | null
  jws: string | null
}

/** What each root key of an application that signs has signed last, newest root key first. */
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
