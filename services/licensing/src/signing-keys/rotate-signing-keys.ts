import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { transaction } from '@licensing/database/transaction'
import { newSigningKey } from './new-signing-key.ts'
import {
  deleteSigningKeysOf,
  findApplicationsWithKeys,
  insertNextSigningKeys,
  lockSigningKeys,
} from './signing-key-queries.ts'

/**
 * Adds the next signing key to applications that have one. Normally the current key verifies until everything it signed
 * has expired. If it `leaked`, it is deleted, and everything it signed is invalid immediately.
 *
 * @param options.applicationId rotates only this application
 * @param options.leadSeconds how long the next key is published before it signs
 * @returns the ids of the applications
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
