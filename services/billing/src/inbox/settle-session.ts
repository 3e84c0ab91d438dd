import { ServiceError } from '@licensing/grpc/errors'
import { paymentStates, readSession } from '../checkout-sessions/session-queries.ts'
import type { BillingDeps } from '../dependencies.ts'
import { awaitingAction, nextRipe } from '../facts/ripeness.ts'
import { findInvoices } from '../facts/subscription-facts.ts'
import { settle } from '../settlement/settle.ts'
import { paymentRefsOf } from '../settlement/story.ts'
import { inMs, isFresh, mostSilences } from './again.ts'
import type { Again } from './again.ts'
import { compareCharge } from './compare-charge.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { lookUpSession } from './look-up.ts'

const holdMs = 250

/** Asks the processor for what its events do not tell, then draws what follows from all that is known of a session. */
export async function settleSession(deps: BillingDeps, event: InboxEvent, sessionId: string): Promise<Again> {
  const { sql } = deps
  const { merchant } = event
  const found = await lookUpSession(deps, sessionId)
  const subjects = await subjectsOf(deps, sessionId)
  const waiting = await awaitingAction(sql, merchant, subjects.paymentRefs)
  for (const paymentRef of waiting) await compareCharge(deps, merchant, paymentRef)
  // Read before anything is drawn: what ripens in the meantime is not left lying.
  const ripe = await nextRipe(sql, merchant, subjects)
  const givenUp = found === 'absent' || event.attempts >= mostSilences
  const held = await settle(deps, sessionId, {
    unfound: givenUp ? 'absent' : 'pending',
    patient: isFresh(event),
  })
  if (found === 'failing') {
    throw new ServiceError('unavailable', 'settled, but the payment processor has not reported all of it yet')
  }
  if (await isUnprovisioned(deps, sessionId)) {
    throw new ServiceError('unavailable', 'paid, but the payment processor has not reported the period yet')
  }
  return held ? inMs(holdMs) : ripe
}

async function isUnprovisioned({ sql }: BillingDeps, sessionId: string): Promise<boolean> {
  const session = await readSession(sql, sessionId)
  return session?.payment_state === paymentStates.paid && session.status === 'open'
}

/** By what the processor knows a session: its payments and its subscription. */
async function subjectsOf(
  { sql }: BillingDeps,
  sessionId: string,
): Promise<{ paymentRefs: string[]; subscriptionRef: string | null }> {
  const session = await readSession(sql, sessionId)
  if (!session) return { paymentRefs: [], subscriptionRef: null }
  const { merchant, subscription_ref: subscriptionRef } = session
  const invoices = subscriptionRef === null ? [] : await findInvoices(sql, merchant, subscriptionRef)
  return { paymentRefs: paymentRefsOf(session, invoices), subscriptionRef }
}
