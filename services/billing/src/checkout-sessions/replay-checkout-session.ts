import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import { deleteUnfinishedRecord } from '@licensing/changes/repeatable'
import { CheckoutSessionSchema } from '@licensing/proto/billing'
import type { Handler } from '../dependencies.ts'
import { replay } from '../effects/send-effects.ts'
import { isRefundedInFull } from '../refunds/refund-queries.ts'
import { findSession } from './session-queries.ts'
import type { SessionRow } from './session-queries.ts'
import { sessionMessage, sessionNotFound } from './sessions.ts'

/**
 * Provisions a paid session after the vendor removed the cause of its failure. If it fails again, only the caller gets the
 * error: no event reports it.
 */
export const replayCheckoutSession: Handler<'replayCheckoutSession'> = async (
  deps,
  request,
  unfinishedAnswer,
) => {
  const found = await findSession(deps.sql, request)
  if (!found) throw sessionNotFound(request.sessionId)
  // An earlier call with the same idempotency key has provisioned it.
  if (unfinishedAnswer && found.status === 'provisioned') return sessionMessage(found)
  const nothing = nothingToReplay(found, await isRefundedInFull(deps.sql, found.id))
  if (nothing !== undefined) throw refusal(found, nothing)
  const answer = { schema: CheckoutSessionSchema, toMessage: () => sessionMessage(found), isUnfinished: true }
  await deps.change(async () => {}, { answer })
  try {
    if (!(await replay(deps, found.id))) {
      const why = 'it is being provisioned at the moment: ask for it again'
      throw unfinishedAnswer ? new ServiceError('unavailable', why) : refusal(found, why)
    }
  } catch (error) {
    await deleteUnfinishedRecord(deps.sql)
    throw refused(error)
  }
  return sessionMessage((await findSession(deps.sql, request))!)
}

function nothingToReplay(session: SessionRow, isRefunded: boolean): string | undefined {
  if (session.paid_at === null) return 'it has not been paid, so there is nothing to replay'
  if (session.status === 'provisioned') return 'its licence has been issued, so there is nothing to replay'
  if (isRefunded) return 'its payment was refunded in full or charged back, so there is nothing to replay'
  return session.status === 'provision_failed'
    ? undefined
    : 'the payment processor has not reported its period yet: it will be provisioned as soon as it does'
}

function refusal(session: SessionRow, why: string): ServiceError {
  return new ServiceError('conflict', `checkout session ${session.id} is ${session.status}; ${why}`, {
    members: { current: session.status, allowed: [] },
  })
}

/** An error about a state keeps its code. Any other error becomes a conflict with the same text. */
function refused(error: unknown): unknown {
  if (error instanceof ServiceError && ![409, 500, 503].includes(errorCatalogue[error.code].http)) {
    return new ServiceError('conflict', `no licence can be issued: ${error.message}`, { cause: error })
  }
  return error
}
