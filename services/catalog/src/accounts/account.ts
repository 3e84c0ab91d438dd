import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { AccountSchema } from '@licensing/proto/catalog'
import type { AccountRow } from './account-queries.ts'

export function toAccount(row: AccountRow): MessageInitShape<typeof AccountSchema> {
  const { alert_email: confirmed, unconfirmed_alert_email: unconfirmed } = row
  const alertEmail = unconfirmed ?? confirmed
  return {
    id: row.id,
    name: row.name,
    ...(alertEmail !== null && { alertEmail }),
    alertEmailConfirmed: alertEmail !== null && unconfirmed === null,
    ...(confirmed !== null && { confirmedAlertEmail: confirmed }),
    feeBps: row.fee_bps,
    feeFixedMinor: row.fee_fixed_minor,
    createdAt: timestampFromDate(row.created_at),
  }
}
