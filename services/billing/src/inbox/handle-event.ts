import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import { alertVendor } from '../alerts/alert-vendor.ts'
import { markDisconnected } from '../connections/connection-queries.ts'
import { paymentStates, readSession } from '../checkout-sessions/session-queries.ts'
import type { BillingDeps } from '../deps.ts'
import { recordFact } from '../facts/record-fact.ts'
import type { Subject } from '../facts/record-fact.ts'
import { deriveRefund } from '../facts/refund-facts.ts'
import { awaitingAction, graceMs, nextRipe } from '../facts/ripeness.ts'
import { sessionsOf } from '../facts/subjects.ts'
import { findInvoices } from '../facts/subscription-facts.ts'
import type { ChargeFact, Fact } from '../processors/facts.ts'
import { settle } from '../settlement/settle.ts'
import { paymentRefsOf } from '../settlement/story.ts'
import { compareCharge } from './compare-charge.ts'
import { isNewsWaiting } from './inbox-queries.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { lookUpSession } from './look-up.ts'

// A checkout may be told of before the answer to its opening is committed.
const newSessionMs = 10_000
// A busy merchant's refunds are held no longer than this for what has not been looked at.
const longestHoldMs = 30_000
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
  const subject = await recordFact(deps.sql, merchant, fact, ripeAt(fact))
  const sessions = await sessionsOf(deps.sql, merchant, subject)
  if (sessions.length === 0) return stranger(event, fact)
  let again = fact.kind === 'charge' ? await inferRefund(deps, event, fact, subject) : undefined
  for (const sessionId of sessions) again = earlier(again, await settleWith(deps, event, sessionId))
  return again
}

function ripeAt(fact: Fact): Date {
  const waits =
    fact.kind === 'refund' ||
    fact.kind === 'dispute' ||
    (fact.kind === 'subscription_ended' && fact.paymentsFailed)
  return inMs(waits ? graceMs : 0)
}

/** Whether there is time yet to let others go first. */
function isFresh(event: InboxEvent): boolean {
  return Date.now() - event.received_at.getTime() < longestHoldMs
}

/** Not one of ours; but one that does not name its session may be just being opened, and is known in a moment. */
function stranger(event: InboxEvent, fact: Fact): Again {
  const young = Date.now() - event.received_at.getTime() < newSessionMs
  return fact.kind === 'checkout' && fact.sessionId === undefined && young
    ? inMs(250 * 2 ** event.attempts)
    : undefined
}

/** Takes a charge's total for what no refund has told, where the processor has no list of them. */
async function inferRefund(
  deps: BillingDeps,
  event: InboxEvent,
  charge: ChargeFact,
  { paymentRef }: Subject,
): Promise<Again> {
  if (charge.refunded === 0n || paymentRef === undefined) return undefined
  const found = await compareCharge(deps, event.merchant, paymentRef)
  if (found === 'known') return undefined
  // The refund's own event comes with this one, and may be waiting in the inbox.
  if (event.attempts === 1) return inMs(graceMs)
  if (isFresh(event) && (await isNewsWaiting(deps.sql, event.merchant))) return inMs(250)
  if (found === 'failing' && event.attempts <= mostFailures) return inMs(1_000 * event.attempts)
  await transaction(deps.sql, (tx) => deriveRefund(tx, event.merchant, charge, paymentRef))
  return undefined
}

async function settleWith(deps: BillingDeps, event: InboxEvent, sessionId: string): Promise<Again> {
  const { sql } = deps
  const { merchant } = event
  const found = await lookUpSession(deps, sessionId)
  const waiting = await awaitingAction(sql, merchant, await paymentRefs(deps, sessionId))
  for (const paymentRef of waiting) await compareCharge(deps, merchant, paymentRef)
  const givenUp = found === 'absent' || event.attempts >= mostFailures
  const hold = waiting.length > 0 && isFresh(event) && (await isNewsWaiting(sql, merchant))
  await settle(deps, sessionId, { unfound: givenUp ? 'absent' : 'pending', hold })
  if (found === 'failing') {
    throw new ServiceError('unavailable', 'settled, but the payment processor has not told all of it')
  }
  const session = await readSession(sql, sessionId)
  if (session?.payment_state === paymentStates.paid && session.status === 'open') {
    throw new ServiceError('unavailable', 'paid, but the payment processor has not told the period')
  }
  if (hold) return inMs(250)
  return nextRipe(sql, merchant, await paymentRefs(deps, sessionId), session?.subscription_ref ?? null)
}

async function paymentRefs({ sql }: BillingDeps, sessionId: string): Promise<string[]> {
  const session = await readSession(sql, sessionId)
  if (!session) return []
  const { merchant, subscription_ref: subscriptionRef } = session
  return paymentRefsOf(
    session,
    subscriptionRef === null ? [] : await findInvoices(sql, merchant, subscriptionRef),
  )
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
