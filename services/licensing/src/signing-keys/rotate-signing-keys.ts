import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { transaction } from '@licensing/database/transaction'
import { secretTables } from '../secrets-service.ts'
import { newSigningKey } from './new-signing-key.ts'
import {
  deleteSigningKeysOf,
  findApplicationsWithKeys,
  insertNextSigningKeys,
  lockSigningKeys,
} from './signing-key-queries.ts'

/**
 * Gives applications that have keys their next one. The present one goes on verifying until what it signed has
 * expired; where it has `leaked`, what it signed counts for nothing from now on.
 *
 * @param options.applicationId that application alone
 * @param options.leadSeconds how long the next key is published before it signs
 * @returns the applications
 */
export async function rotateSigningKeys(
  sql: Database,
  encryption: EncryptionKeys,
  options: { applicationId?: string | undefined; leadSeconds: number; leaked: boolean },
): Promise<string[]> {
  return transaction(sql, async (tx) => {
    await lockSigningKeys(tx)
    const applicationIds = await findApplicationsWithKeys(tx, options.applicationId)
    const keys = await Promise.all(applicationIds.map((id) => newSigningKey(id, encryption)))
    if (options.leaked) await deleteSigningKeysOf(tx, applicationIds)
    await insertNextSigningKeys(tx, keys, options.leaked ? 0 : options.leadSeconds)
    return applicationIds
  })
}

/** Brings all private keys, root keys among them, under the current encryption key. @returns how many were not */
export async function reEncryptSigningKeys(sql: Database, encryption: EncryptionKeys): Promise<number> {
  const { reEncrypted, unreadable } = await reEncryptTables(secretTables(sql), encryption, Infinity)
  if (unreadable > 0) throw new Error(`${unreadable} keys are under an encryption key that is not configured`)
  return reEncrypted
}
