import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ApiKeySchema, PrincipalSchema } from '@licensing/proto/catalog'
import type { ApiKeyRow } from './api-key-queries.ts'

/** Who calls with this key. */
export function toPrincipal(row: ApiKeyRow): MessageInitShape<typeof PrincipalSchema> {
  return {
    keyId: row.id,
    accountId: row.account_id,
    scopes: row.scopes,
    ...(row.application_id !== null && { applicationId: row.application_id }),
  }
}

export function toApiKey(row: ApiKeyRow): MessageInitShape<typeof ApiKeySchema> {
  return {
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    ...(row.application_id !== null && { applicationId: row.application_id }),
    lastFour: row.last_four,
    createdAt: timestampFromDate(row.created_at),
    ...(row.last_used_at && { lastUsedAt: timestampFromDate(row.last_used_at) }),
    ...(row.revoked_at && { revokedAt: timestampFromDate(row.revoked_at) }),
  }
}
