import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { privateKeysOf } from './signing-key-queries.ts'

/**
 * Encrypts the private keys of this service (signing keys and root keys) again with the current encryption key.
 *
 * @param budgetMs ends after this time even if some are left
 */
export function reEncryptPrivateKeys(sql: Database, keys: EncryptionKeys, budgetMs: number) {
  const tables = [privateKeysOf(sql, 'signing_keys'), privateKeysOf(sql, 'root_keys')]
  return reEncryptTables(tables, keys, budgetMs)
}

/**
 * Like `reEncryptPrivateKeys`, without a time limit. @returns how many keys changed @throws Error if a key cannot be
 * decrypted
 */
export async function reEncryptAllPrivateKeys(sql: Database, keys: EncryptionKeys): Promise<number> {
  const { reEncrypted, unreadable } = await reEncryptPrivateKeys(sql, keys, Infinity)
  if (unreadable > 0) throw new Error(`${unreadable} keys are encrypted with a key that is not configured`)
  return reEncrypted
}
