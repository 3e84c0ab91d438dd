import { messageOf } from '@licensing/grpc/fields'
import { FeeSchema } from '@licensing/proto/billing'
import { pageOf } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { listFeeRows } from './ledger-queries.ts'

export const listFees: Handler<'listFees'> = async ({ sql }, request) => {
  const rows = await listFeeRows(sql, request.accountId, request, request.onlyApplicationId)
  const { page, hasMore } = pageOf(rows, request.limit)
  return {
    fees: page.map((row) => messageOf(FeeSchema, { ...row, kind: readMember('feeKind', row.kind) })),
    hasMore,
  }
}
