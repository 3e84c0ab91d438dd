import { decrypt, encrypt, isUnderCurrentKey } from './encryption.ts'
import type { EncryptionKeys } from './encryption.ts'

/** A table with a column of secrets, each bound to the id of its row. */
export interface SecretTable {
  /** The next rows after this id, in order of id. */
  list(afterId: string, limit: number): Promise<{ id: string; secret: Uint8Array }[]>
  /** Replaces the bytes if the row still has the former ones. @returns whether it did */
  replace(id: string, former: Uint8Array, next: Buffer): Promise<boolean>
}

export interface ReEncryption {
  /** The current key. */
  keyId: string
  reEncrypted: number
  /** Secrets whose key is not configured. */
  unreadable: number
  /** False if the time ran out before all secrets were checked. */
  done: boolean
}

const atOnce = 500

/**
 * Re-encrypts all secrets of a service with its current key while the service runs. If a secret is changed meanwhile, it
 * keeps its new value, encrypted with the key of the replica that changed it.
 *
 * @param budgetMs longest time in milliseconds; another call does the rest
 */
export async function reEncryptTables(
  tables: SecretTable[],
  keys: EncryptionKeys,
  budgetMs: number,
): Promise<ReEncryption> {
  const until = performance.now() + budgetMs
  const result = { keyId: keys.current, reEncrypted: 0, unreadable: 0, done: true }
  for (const table of tables) {
    for (let afterId = ''; ;) {
      const rows = await table.list(afterId, atOnce)
      for (const row of rows) {
        if (isUnderCurrentKey(row.secret, keys)) continue
        const next = encryptedAgain(row, keys)
        if (!next) result.unreadable += 1
        else if (await table.replace(row.id, row.secret, next)) result.reEncrypted += 1
      }
      const last = rows.at(-1)
      if (!last || rows.length < atOnce) break
      if (performance.now() > until) return { ...result, done: false }
      afterId = last.id
    }
  }
  return result
}

function encryptedAgain(
  { id, secret }: { id: string; secret: Uint8Array },
  keys: EncryptionKeys,
): Buffer | undefined {
  try {
    return encrypt(decrypt(secret, id, keys), id, keys)
  } catch {
    return undefined
  }
}
