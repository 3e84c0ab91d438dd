import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { implement } from '@licensing/grpc/server'
import { SecretsService } from '@licensing/proto/secrets'
import { findPrivateKeys, replacePrivateKey } from './signing-keys/signing-key-queries.ts'
import { findPrivateRootKeys, replacePrivateRootKey } from './signing-keys/root-key-queries.ts'

const budgetMs = 20_000

/** The private keys of this service: of tokens and lists, and the root keys. */
export function secretTables(sql: Database) {
  return [
    { find: findPrivateKeys, replace: replacePrivateKey },
    { find: findPrivateRootKeys, replace: replacePrivateRootKey },
  ].map(({ find, replace }) => ({
    list: async (afterId: string, limit: number) =>
      (await find(sql, afterId, limit)).map((row) => ({ id: row.kid, secret: row.private_key })),
    replace: (id: string, former: Uint8Array, next: Buffer) => replace(sql, id, former, next),
  }))
}

/** The operator's change of the encryption key. */
export function secretsService(sql: Database, keys: EncryptionKeys) {
  return implement(SecretsService, {
    reEncrypt: () => reEncryptTables(secretTables(sql), keys, budgetMs),
  })
}
