import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { CheckoutSessionSchema, ReplayCheckoutSessionRequest } from '@licensing/proto/billing'
import type { BillingDeps } from '../dependencies.ts'
import { replayStep } from '../settlement/next-step.ts'
import { provision } from '../settlement/provision.ts'
import { settle } from '../settlement/settle.ts'
import { lockStory } from '../settlement/story.ts'
import { findSession } from './session-queries.ts'
import type { SessionRow } from './session-queries.ts'
import { sessionMessage, sessionNotFound } from './session.ts'

/** Provisions a paid session once the cause is fixed; what fails again is answered, and told to nobody else. */
export async function replayCheckoutSession(
  deps: BillingDeps,
  request: ReplayCheckoutSessionRequest,
): Promise<MessageInitShape<typeof CheckoutSessionSchema>> {
  const found = await findSession(deps.sql, request)
  if (!found) throw sessionNotFound(request.sessionId)
  await deps.outbox.transaction(async (tx) => {
    const story = await lockStory(tx, found.id)
    if (!story) throw sessionNotFound(found.id)
    const step = replayStep(story)
    if (typeof step === 'string') throw nothingToReplay(story.session, step)
    await provision(deps, tx, story.session, step.expiresOn, { replay: true }).catch(refused)
  })
  // What came in meanwhile, such as a partial refund, is drawn at once; should licensing be away, the inbox does it.
  await settle(deps, found.id).catch((error: unknown) => {
    deps.log.warn({ err: error, session: found.id }, 'replayed, but not settled yet')
  })
  return sessionMessage((await findSession(deps.sql, request))!)
}

function nothingToReplay(session: SessionRow, why: string): ServiceError {
  return new ServiceError('conflict', `checkout session ${session.id} is ${session.status}; ${why}`, {
    members: { current: session.status, allowed: [] },
  })
}

/** The cause's own code where it is about a state; else what is wrong is said in words. */
function refused(error: unknown): never {
  if (error instanceof ServiceError && ![409, 500, 503].includes(errorCatalogue[error.code].http)) {
    throw new ServiceError('conflict', `no licence can be issued: ${error.message}`, { cause: error })
  }
  throw error
}
