import type { MessageInitShape } from '@bufbuild/protobuf'
import { isId } from '@licensing/database/ids'
import type { ApiKeySchema, GetApiKeyRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findKey } from './api-key-queries.ts'
import { toApiKey } from './api-key.ts'

/** A revoked one too: it stays listed. */
export async function getApiKey(
  { sql }: CatalogDependencies,
  { accountId, keyId }: GetApiKeyRequest,
): Promise<MessageInitShape<typeof ApiKeySchema>> {
  const row = isId('key', keyId) ? await findKey(sql, accountId, keyId) : undefined
  if (!row) throw notFound('API key', keyId)
  return toApiKey(row)
}
