import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { listFeeRows } from './ledger-queries.ts'

export const listFees: Handler<'listFees'> = async ({ sql }, request) => {
  const rows = await listFeeRows(sql, request.accountId, request, request.onlyApplicationId)
  const { page, hasMore } = pageOf(rows, request.limit)
  return {
    fees: page.map((row) => ({
      id: row.id,
      kind: readMember('feeKind', row.kind),
      amountMinor: row.amount_minor,
      currency: row.currency,
      chargeRef: row.charge_ref,
      applicationId: row.application_id,
      period: row.period,
      occurredAt: timestampFromDate(row.occurred_at),
    })),
    hasMore,
  }
}
