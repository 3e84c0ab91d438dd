import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf, rowsFor } from '@licensing/database/page'
import type { ListAttemptsRequest, ListAttemptsResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { attemptMessage, deliveryNotFound } from './delivery.ts'
import { findDeliveries, listAttemptRows } from './delivery-log-queries.ts'

export async function listAttempts(
  { sql }: NotifierDependencies,
  { accountId, applicationId, deliveryId, limit, beforeAttempt }: ListAttemptsRequest,
): Promise<MessageInitShape<typeof ListAttemptsResponseSchema>> {
  const filter = { accountId, applicationId, id: deliveryId, limit: 1 }
  const [delivery] = await findDeliveries(sql, filter, [])
  if (!delivery) throw deliveryNotFound(deliveryId)
  const last = beforeAttempt > 0 ? beforeAttempt - 1 : delivery.attempt_count
  const rows = await listAttemptRows(sql, deliveryId, last, rowsFor(limit))
  const { page, hasMore } = pageOf(rows, limit)
  return { attempts: page.map(attemptMessage), hasMore }
}
