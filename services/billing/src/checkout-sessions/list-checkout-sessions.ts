import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import type {
  ListCheckoutSessionsRequest,
  ListCheckoutSessionsResponseSchema,
} from '@licensing/proto/billing'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { BillingDependencies } from '../dependencies.ts'
import { periodOf } from '../period.ts'
import { listSessionRows } from './session-list-queries.ts'
import { sessionMessage } from './session.ts'

export async function listCheckoutSessions(
  { sql }: BillingDependencies,
  request: ListCheckoutSessionsRequest,
): Promise<MessageInitShape<typeof ListCheckoutSessionsResponseSchema>> {
  if (request.status !== undefined && !isMember('checkoutStatus', request.status)) {
    throw invalid('/status', `must be one of ${closedSets.checkoutStatus.join(', ')}`)
  }
  const rows = await listSessionRows(sql, { ...request, ...periodOf(request) }, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { sessions: page.map(sessionMessage), hasMore }
}
