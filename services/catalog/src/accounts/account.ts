import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { AccountSchema } from '@licensing/proto/catalog'
import type { AccountRow } from './account-queries.ts'

export function toAccount(row: AccountRow): MessageInitShape<typeof AccountSchema> {
  return {
    id: row.id,
    name: row.name,
    ...(row.alert_email !== null && { alertEmail: row.alert_email }),
    feeBps: row.fee_bps,
    feeFixedMinor: row.fee_fixed_minor,
    createdAt: timestampFromDate(row.created_at),
  }
}
