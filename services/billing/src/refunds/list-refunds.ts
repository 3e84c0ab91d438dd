import { messageOf } from '@licensing/grpc/fields'
import { RefundSchema } from '@licensing/proto/billing'
import { pageOf } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { requestedPeriod } from '../period-queries.ts'
import { listRefundRows } from './refund-queries.ts'

export const listRefunds: Handler<'listRefunds'> = async ({ sql }, request) => {
  const { page, hasMore } = pageOf(
    await listRefundRows(sql, { ...request, ...requestedPeriod(request) }, request),
    request.limit,
  )
  return {
    refunds: page.map((row) =>
      messageOf(RefundSchema, {
        ...row,
        lane: readMember('refundKind', row.kind),
        status: readMember(row.kind === 'chargeback' ? 'disputeStatus' : 'refundStatus', row.status),
      }),
    ),
    hasMore,
  }
}
