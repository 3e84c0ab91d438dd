import { transaction } from '@licensing/database/transaction'
import { alertVendor } from '../alerts/alert-vendor.ts'
import { markDisconnected } from '../connections/connection-queries.ts'
import type { BillingDeps } from '../dependencies.ts'
import { recordFact } from '../facts/record-fact.ts'
import type { Subject } from '../facts/subjects.ts'
import { deriveRefund } from '../facts/refund-facts.ts'
import { graceMs } from '../facts/ripeness.ts'
import { sessionsOf } from '../facts/subjects.ts'
import type { ChargeFact, Fact } from '../processors/facts.ts'
import { earlier, inMs, isFresh, mostSilences } from './again.ts'
import type { Again } from './again.ts'
import { compareCharge } from './compare-charge.ts'
import { isNewsWaiting, markRecorded } from './inbox-queries.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { settleSession } from './settle-session.ts'

// A checkout may be told of before the answer to its opening is committed.
const newSessionMs = 10_000

/** Records what an event tells, then draws from each session that it concerns what follows. */
export async function handleEvent(deps: BillingDeps, event: InboxEvent): Promise<Again> {
  const facts = deps.processor.factsOf(event.body)
  if (facts.length === 0) {
    deps.log.info({ event: event.event_id, type: event.type }, 'event without consequence')
  }
  let again: Again
  for (const fact of facts) again = earlier(again, await handleFact(deps, event, fact))
  return again
}

async function handleFact(deps: BillingDeps, event: InboxEvent, fact: Fact): Promise<Again> {
  const { merchant } = event
  if (fact.kind === 'disconnected') return disconnect(deps, merchant, fact.at)
  const subject = await recordFact(deps.sql, merchant, fact, ripeAt(fact))
  await markRecorded(deps.sql, event.position)
  const sessions = await sessionsOf(deps.sql, merchant, subject)
  if (sessions.length === 0) return stranger(event, fact)
  let again = fact.kind === 'charge' ? await inferRefund(deps, event, fact, subject) : undefined
  for (const sessionId of sessions) {
    again = earlier(again, await settleSession(deps, event, sessionId))
  }
  return again
}

function ripeAt(fact: Fact): Date {
  const waits =
    fact.kind === 'refund' ||
    fact.kind === 'dispute' ||
    (fact.kind === 'subscription_ended' && fact.paymentsFailed)
  return inMs(waits ? graceMs : 0)
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
  if (found === 'failing' && event.attempts <= mostSilences) return inMs(1_000 * event.attempts)
  await transaction(deps.sql, (tx) => deriveRefund(tx, event.merchant, charge, paymentRef))
  return undefined
}

async function disconnect({ outbox }: BillingDeps, merchant: string, at: Date): Promise<Again> {
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
