import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { implement } from '@licensing/grpc/server'
import { SecretsService } from '@licensing/proto/secrets'
import { listSecrets, replaceSecret } from './endpoint-secret-queries.ts'

const budgetMs = 20_000

/** The operator's change of the encryption key. */
export function secretsService(sql: Database, keys: EncryptionKeys) {
  const table = {
    list: (afterId: string, limit: number) => listSecrets(sql, afterId, limit),
    replace: (id: string, former: Uint8Array, next: Buffer) => replaceSecret(sql, id, former, next),
  }
  return implement(SecretsService, {
    reEncrypt: () => reEncryptTables([table], keys, budgetMs),
  })
}
