import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Database } from '@licensing/database/connect'
import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { implement } from '@licensing/grpc/server'
import type { WebhookSignature } from '@licensing/proto/closed-sets'
import { RotateSecretResponseSchema } from '@licensing/proto/notifier'
import { SecretsService } from '@licensing/proto/secrets'
import type { Handler } from '../dependencies.ts'
import { changeEndpoint } from './change-endpoint.ts'
import { listSecrets, replaceSecret, secretColumns } from './endpoint-queries.ts'
import type { EndpointRow } from './endpoint-queries.ts'

/** Signing switches to the new secret immediately (docs/guides/webhooks.md, "Rotate the signing secret"). */
export const rotateSecret: Handler<'rotateSecret'> = async (deps, request) => {
  const { keys, clock, overlapHourMs } = deps
  const { endpointId, overlapHours = 0 } = request
  let secret = ''
  const toMessage = () => ({ id: endpointId, secret })
  await changeEndpoint(
    deps,
    request,
    ({ signature, encrypted_secret: former }) => {
      secret = newSecret(signature)
      const until = new Date(clock.now().getTime() + overlapHours * overlapHourMs)
      return {
        encrypted_secret: encrypt(secret, endpointId, keys),
        former_secret: overlapHours > 0 ? former : null,
        former_secret_until: overlapHours > 0 ? until : null,
      }
    },
    { answer: { schema: RotateSecretResponseSchema, toMessage } },
  )
  return toMessage()
}

const budgetMs = 20_000

/** Encrypts all secrets with a new key of the operator. */
export function secretsService(sql: Database, keys: EncryptionKeys) {
  const tables = secretColumns.map((column) => ({
    list: (afterId: string, limit: number) => listSecrets(sql, column, afterId, limit),
    replace: (id: string, former: Uint8Array, next: Buffer) => replaceSecret(sql, column, id, former, next),
  }))
  return implement(SecretsService, {
    reEncrypt: () => reEncryptTables(tables, keys, budgetMs),
  })
}

/** `whsec_` and 256 random bits: 43 characters of base64url, or padded base64 if Standard Webhooks decodes it. */
export function newSecret(signature: WebhookSignature): string {
  return `whsec_${randomBytes(32).toString(signature === 'standard' ? 'base64' : 'base64url')}`
}

export function encryptHeaders(
  headers: Record<string, string> | null,
  endpointId: string,
  keys: EncryptionKeys,
): Buffer | null {
  return headers && encrypt(JSON.stringify(headers), endpointId, keys)
}

/** Whether the endpoint has these headers. Headers that cannot be decrypted are others. */
export function hasHeaders(
  { id, encrypted_headers: encrypted }: Pick<EndpointRow, 'id' | 'encrypted_headers'>,
  headers: Record<string, string>,
  keys: EncryptionKeys,
): boolean {
  try {
    return encrypted !== null && isDeepStrictEqual(headers, JSON.parse(decrypt(encrypted, id, keys)))
  } catch {
    return false
  }
}
