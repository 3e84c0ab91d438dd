import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ApplicationSchema } from '@licensing/proto/catalog'
import type { ApplicationRow } from './application-queries.ts'

export function toApplication(row: ApplicationRow): MessageInitShape<typeof ApplicationSchema> {
  return {
    id: row.id,
    name: row.name,
    accountId: row.account_id,
    createdAt: timestampFromDate(row.created_at),
  }
}
