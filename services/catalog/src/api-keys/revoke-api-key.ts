import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import type { Sql } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import type { RevokeApiKeyRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { revokeKeyRow } from './api-key-queries.ts'
import type { KeyOwner } from './api-key-queries.ts'

/** Revoking again changes nothing and answers the same. */
export async function revokeApiKey(
  { sql }: CatalogDependencies,
  { accountId, keyId }: RevokeApiKeyRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const found = await revokeKey(sql, { accountId }, keyId)
  if (!found) throw notFound('API key', keyId)
  return {}
}

/**
 * Revokes a key. No event reports it: a gateway asks about a key each second, and an answer counts for 2 seconds
 * (decisions 2: refused everywhere within 2 seconds).
 *
 * @returns whether there is such a key
 */
export async function revokeKey(sql: Sql, owner: KeyOwner, keyId: string): Promise<boolean> {
  return isId('key', keyId) && revokeKeyRow(sql, owner, keyId)
}
