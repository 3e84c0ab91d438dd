import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import type { RevokeApiKeyRequest } from '@licensing/proto/catalog'
import type { CatalogDeps } from '../deps.ts'
import { notFound } from '../refusals.ts'
import { revokeKeyRow } from './api-key-queries.ts'
import type { KeyOwner } from './api-key-queries.ts'

/** Revoking again changes nothing and answers the same. */
export async function revokeApiKey(
  { outbox }: CatalogDeps,
  { accountId, keyId }: RevokeApiKeyRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const found = await outbox.transaction((tx) => revokeKey(tx, { accountId }, keyId))
  if (!found) throw notFound('API key', keyId)
  return {}
}

/** Revokes and tells every gateway, which caches keys. @returns whether there is such a key */
export async function revokeKey(tx: Transaction, owner: KeyOwner, keyId: string): Promise<boolean> {
  const revoked = isId('key', keyId) ? await revokeKeyRow(tx, owner, keyId) : undefined
  if (typeof revoked === 'object') {
    await append(tx, {
      accountId: revoked.account_id,
      applicationId: revoked.application_id ?? '',
      payload: { case: 'apiKeyRevoked', value: { keyId, keyHash: revoked.key_hash } },
    })
  }
  return revoked !== undefined
}
