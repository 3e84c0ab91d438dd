import type { Sql } from '@licensing/database/connect'

export async function listSecrets(
  sql: Sql,
  afterId: string,
  limit: number,
): Promise<{ id: string; secret: Uint8Array }[]> {
  return sql<{ id: string; secret: Uint8Array }[]>`
    select id, encrypted_secret as secret from endpoints where id > ${afterId} order by id limit ${limit}`
}

/** The same secret in other bytes: no new generation. @returns false where it was changed meanwhile */
export async function replaceSecret(
  sql: Sql,
  id: string,
  former: Uint8Array,
  next: Buffer,
): Promise<boolean> {
  const replaced = await sql`
    update endpoints set encrypted_secret = ${next}
    where id = ${id} and encrypted_secret = ${Buffer.from(former)}`
  return replaced.count > 0
}
