import { randomBytes } from 'node:crypto'
import { audit, newSecrets } from '@licensing/changes/audit'
import type { Database, Transaction } from '@licensing/database/connect'
import { encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { implement } from '@licensing/grpc/server'
import { RotateSecretResponseSchema } from '@licensing/proto/notifier'
import { SecretsService } from '@licensing/proto/secrets'
import type { Handler } from '../dependencies.ts'
import { changeSecret, lockEndpoint, listSecrets, replaceSecret } from './endpoint-queries.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'

/** Signing switches to the new secret immediately (docs/guides/webhooks.md, "Rotate the signing secret"). */
export const rotateSecret: Handler<'rotateSecret'> = async ({ change, keys, dispatcher }, request) => {
  const { endpointId } = request
  const secret = newSecret()
  const replace = async (tx: Transaction) => {
    const row = await changeSecret(tx, request, encrypt(secret, endpointId, keys))
    if (row) {
      const { accountId, applicationId } = request
      const changes = newSecrets(RotateSecretResponseSchema)
      await audit(tx, { accountId, applicationId, resourceId: endpointId, changes })
      return row
    }
    throw (await lockEndpoint(tx, request)) ? endpointDisabled(endpointId) : endpointNotFound(endpointId)
  }
  const response = { id: endpointId, secret }
  const changed = await change(replace, {
    answer: { schema: RotateSecretResponseSchema, toMessage: () => response },
  })
  dispatcher.endpointsChanged([changed])
  return response
}

const budgetMs = 20_000

/** Encrypts all secrets with a new key of the operator. */
export function secretsService(sql: Database, keys: EncryptionKeys) {
  const table = {
    list: (afterId: string, limit: number) => listSecrets(sql, afterId, limit),
    replace: (id: string, former: Uint8Array, next: Buffer) => replaceSecret(sql, id, former, next),
  }
  return implement(SecretsService, {
    reEncrypt: () => reEncryptTables([table], keys, budgetMs),
  })
}

/** `whsec_` and 43 characters of base64url: 256 random bits. */
export const newSecret = () => `whsec_${randomBytes(32).toString('base64url')}`
