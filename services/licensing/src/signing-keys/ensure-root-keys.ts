import type { Sql } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { findNewestRootKeys, insertFirstRootKeys } from './root-key-queries.ts'
import { newRootKey } from './root-key.ts'

/** The newest root keys by application; an application without one gets its first. */
export async function ensureRootKeys(
  sql: Sql,
  encryption: EncryptionKeys,
  applicationIds: string[],
): Promise<Map<string, string>> {
  const known = await findNewestRootKeys(sql, applicationIds)
  const missing = [...new Set(applicationIds)].filter((id) => !known.has(id)).toSorted()
  if (missing.length === 0) return known
  await insertFirstRootKeys(
    sql,
    missing.map((id) => newRootKey(id, encryption)),
  )
  return findNewestRootKeys(sql, applicationIds)
}
