import type { MessageInitShape } from '@bufbuild/protobuf'
import type { CheckoutSessionSchema, GetCheckoutSessionRequest } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { findSession } from './session-queries.ts'
import { sessionMessage, sessionNotFound } from './session.ts'

export async function getCheckoutSession(
  { sql }: BillingDependencies,
  request: GetCheckoutSessionRequest,
): Promise<MessageInitShape<typeof CheckoutSessionSchema>> {
  const row = await findSession(sql, request)
  if (!row) throw sessionNotFound(request.sessionId)
  return sessionMessage(row)
}
