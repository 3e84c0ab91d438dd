import { messageOf } from '@licensing/grpc/fields'
import { pageOf } from '@licensing/database/page'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { CheckoutSessionSchema } from '@licensing/proto/billing'
import type { CheckoutSession } from '@licensing/proto/billing'
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

export function sessionMessage(row: SessionRow): CheckoutSession {
  return messageOf(CheckoutSessionSchema, { ...row, status: readMember('checkoutStatus', row.status) })
}

export function sessionNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no checkout session ${id.slice(0, 64)}`)
}
