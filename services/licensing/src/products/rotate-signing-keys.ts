import type { Database } from '@licensing/database/connect'
import { decrypt, encrypt, isUnderCurrentKey } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { transaction } from '@licensing/database/transaction'
import { newSigningKey } from './new-signing-key.ts'
import {
  deleteSigningKeysOf,
  findApplicationsWithKeys,
  findPrivateKeys,
  insertNextSigningKeys,
  lockSigningKeys,
  writePrivateKey,
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

const reEncryptedAtOnce = 200

/** Brings all private keys under the current encryption key. @returns how many were not */
export async function reEncryptSigningKeys(sql: Database, encryption: EncryptionKeys): Promise<number> {
  let changed = 0
  for (let afterKid = ''; ;) {
    const rows = await transaction(sql, async (tx) => {
      const page = await findPrivateKeys(tx, afterKid, reEncryptedAtOnce)
      for (const { kid, private_key: held } of page) {
        if (isUnderCurrentKey(held, encryption)) continue
        await writePrivateKey(tx, kid, encrypt(decrypt(held, kid, encryption), kid, encryption))
        changed += 1
      }
      return page
    })
    const last = rows.at(-1)
    if (!last || rows.length < reEncryptedAtOnce) return changed
    afterKid = last.kid
  }
}
