import { ServiceError } from '@licensing/grpc/errors'
import { alertVendor } from '../alerts/alert-vendor.ts'
import { markDisconnected } from '../connections/connection-queries.ts'
import { paymentStates, readSession } from '../checkout-sessions/session-queries.ts'
import type { BillingDeps } from '../deps.ts'
import { recordFact } from '../facts/record-fact.ts'
import type { Subject } from '../facts/record-fact.ts'
import { nextRipe, sessionsOf } from '../facts/subjects.ts'
import { findInvoices } from '../facts/subscription-facts.ts'
import type { Fact } from '../processors/facts.ts'
import { settle } from '../settlement/settle.ts'
import { paymentRefsOf } from '../settlement/story.ts'
import { compareCharge, inferRefund } from './compare-charge.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { lookUpSession } from './look-up.ts'

// What comes out of order comes within moments; a fact that may have a forerunner waits this long for it, unless the
// processor's own records show that there is none.
const graceMs = 1_500
// A checkout may be told of before the answer to its opening is committed.
const newSessionMs = 10_000
// How often the processor may fail to answer before a fee is charged, or a refund inferred, without it.
const mostFailures = 3

/** When to take the event up again; undefined: it is done. */
export type Again = Date | undefined

/** Records what an event tells, then draws from each session that it concerns what follows. */
export async function handleEvent(deps: BillingDeps, event: InboxEvent): Promise<Again> {
  let again: Again
  const facts = deps.processor.factsOf(event.body)
  if (facts.length === 0)
    deps.log.info({ event: event.event_id, type: event.type }, 'event without consequence')
  for (const fact of facts) {
    const at = await handleFact(deps, event, fact)
    again = earlier(again, at)
  }
  return again
}

async function handleFact(deps: BillingDeps, event: InboxEvent, fact: Fact): Promise<Again> {
  const { merchant } = event
  if (fact.kind === 'disconnected') return disconnect(deps, merchant, fact.at)
  const subject = await recordFact(deps.sql, merchant, fact, ripeAt(event, fact))
  const sessions = await sessionsOf(deps.sql, merchant, subject)
  if (sessions.length === 0) return stranger(event, fact)
  let again = await compare(deps, event, fact, subject)
  for (const sessionId of sessions) again = earlier(again, await settleWith(deps, event, sessionId))
  return again
}

function ripeAt(event: InboxEvent, fact: Fact): Date {
  const waits =
    fact.kind === 'refund' ||
    fact.kind === 'dispute' ||
    (fact.kind === 'subscription_ended' && fact.paymentsFailed)
  return new Date(event.received_at.getTime() + (waits ? graceMs : 0))
}

/** Not one of ours; but one that does not name its session may be just being opened, and is known in a moment. */
function stranger(event: InboxEvent, fact: Fact): Again {
  const young = Date.now() - event.received_at.getTime() < newSessionMs
  return fact.kind === 'checkout' && fact.sessionId === undefined && young
    ? inMs(250 * 2 ** event.attempts)
    : undefined
}

async function compare(deps: BillingDeps, event: InboxEvent, fact: Fact, subject: Subject): Promise<Again> {
  const { paymentRef } = subject
  if (paymentRef === undefined) return undefined
  if (fact.kind === 'refund' || fact.kind === 'dispute') {
    await compareCharge(deps, event.merchant, { chargeRef: fact.chargeRef, paymentRef })
    return undefined
  }
  if (fact.kind !== 'charge' || fact.refunded === 0n) return undefined
  const found = await compareCharge(deps, event.merchant, { chargeRef: fact.chargeRef, paymentRef })
  if (found === 'known') return undefined
  const waited = Date.now() - event.received_at.getTime() >= graceMs
  if (!waited) return new Date(event.received_at.getTime() + graceMs)
  if (found === 'failing' && event.attempts <= mostFailures) return inMs(1_000 * event.attempts)
  await inferRefund(deps, event.merchant, { ...fact, paymentRef }, fact.toldAt)
  return undefined
}

async function settleWith(deps: BillingDeps, event: InboxEvent, sessionId: string): Promise<Again> {
  const found = await lookUpSession(deps, sessionId)
  const givenUp = found === 'absent' || event.attempts >= mostFailures
  await settle(deps, sessionId, givenUp ? 'absent' : 'pending')
  const session = await readSession(deps.sql, sessionId)
  if (!session) return undefined
  if (found === 'failing') {
    throw new ServiceError('unavailable', 'settled, but the payment processor has not told all of it')
  }
  if (session.payment_state === paymentStates.paid && session.status === 'open') {
    throw new ServiceError('unavailable', 'paid, but the payment processor has not told the period')
  }
  const { merchant, subscription_ref: subscriptionRef } = session
  const invoices = subscriptionRef === null ? [] : await findInvoices(deps.sql, merchant, subscriptionRef)
  return nextRipe(deps.sql, merchant, paymentRefsOf(session, invoices), subscriptionRef)
}

async function disconnect(deps: BillingDeps, merchant: string, at: Date): Promise<Again> {
  const { outbox } = deps
  await outbox.transaction(async (tx) => {
    for (const accountId of await markDisconnected(tx, merchant, at)) {
      await alertVendor(tx, accountId, {
        subject: 'The payment processor was disconnected',
        text: `The connected account ${merchant} withdrew the platform's access. No checkout can be opened until it is connected again; licences stay as they are.`,
      })
    }
  })
  return undefined
}

function inMs(ms: number): Date {
  return new Date(Date.now() + ms)
}

function earlier(one: Again, other: Again): Again {
  if (!one || !other) return one ?? other
  return one < other ? one : other
}
