import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { AuthenticateKeyRequest, PrincipalSchema } from '@licensing/proto/catalog'
import { timingSafeEqual } from 'node:crypto'
import type { CatalogDependencies } from '../dependencies.ts'
import { findKeyByHash } from './api-key-queries.ts'
import { toPrincipal } from './api-key.ts'

export async function authenticateKey(
  { sql, keyUse }: CatalogDependencies,
  { keyHash }: AuthenticateKeyRequest,
): Promise<MessageInitShape<typeof PrincipalSchema>> {
  const row = keyHash.length === 32 ? await findKeyByHash(sql, keyHash) : undefined
  if (!row || !timingSafeEqual(row.key_hash, keyHash) || row.revoked_at) {
    throw new ServiceError('unauthenticated', 'the API key is unknown or revoked')
  }
  keyUse.touch(row.id)
  return toPrincipal(row)
}
