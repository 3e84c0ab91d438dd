import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf } from '@licensing/database/page'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { CheckoutSessionSchema } from '@licensing/proto/billing'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { requestedPeriod } from '../period-queries.ts'
import { findSession, listSessionRows } from './session-queries.ts'
import type { SessionRow } from './session-queries.ts'

export const getCheckoutSession: Handler<'getCheckoutSession'> = async ({ sql }, request) => {
  const row = await findSession(sql, request)
  if (!row) throw sessionNotFound(request.sessionId)
  return sessionMessage(row)
}

export const listCheckoutSessions: Handler<'listCheckoutSessions'> = async ({ sql }, request) => {
  if (request.status !== undefined && !isMember('checkoutStatus', request.status)) {
    throw invalid('/status', `must be one of ${closedSets.checkoutStatus.join(', ')}`)
  }
  const rows = await listSessionRows(sql, { ...request, ...requestedPeriod(request) }, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { sessions: page.map(sessionMessage), hasMore }
}

export function sessionMessage(row: SessionRow): MessageInitShape<typeof CheckoutSessionSchema> {
  return {
    id: row.id,
    url: row.url,
    status: readMember('checkoutStatus', row.status),
    planId: row.plan_id,
    externalRef: row.external_ref,
    amount: row.amount,
    currency: row.currency,
    feeMinor: row.fee_minor,
    createdAt: timestampFromDate(row.created_at),
    ...(row.licence_id !== null && { licenceId: row.licence_id }),
    ...(row.failure_reason !== null && { failureReason: row.failure_reason }),
  }
}

export function sessionNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no checkout session ${id.slice(0, 64)}`)
}
