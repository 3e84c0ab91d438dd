import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import type { ListApiKeysRequest, ListApiKeysResponseSchema } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { checkPage } from '../check-page.ts'
import { listKeyRows } from './api-key-queries.ts'
import { toApiKey } from './api-key.ts'

export async function listApiKeys(
  { sql, keyUse }: CatalogDependencies,
  request: ListApiKeysRequest,
): Promise<MessageInitShape<typeof ListApiKeysResponseSchema>> {
  checkPage('key', request)
  // So that `last_used_at` tells of every use up to now.
  await keyUse.flush()
  const rows = await listKeyRows(sql, request.accountId, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { apiKeys: page.map(toApiKey), hasMore }
}
