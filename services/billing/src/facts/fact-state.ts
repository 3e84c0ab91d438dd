import type { ChargeFact, Fact } from '../processor/facts.ts'

/**
 * The subject of a fact: an object of the processor in a state that counts. Of the facts with one key only one is kept, so
 * that a decision reads as many facts as the purchase has objects and states, however often the processor reported them.
 *
 * @param sourceKey the id of the event
 */
export function factKey(fact: Fact, sourceKey: string): string {
  switch (fact.kind) {
    case 'checkout':
      return `checkout:${fact.checkoutRef}:${fact.state}:${fact.wasDelayed ? 'delayed' : ''}`
    case 'charge':
      return `charge:${fact.chargeRef}`
    case 'refund':
      return `refund:${fact.refundRef}:${fact.status}`
    case 'dispute':
      return `dispute:${fact.disputeRef}:${fact.stage}:${fact.status}`
    case 'invoice_paid':
      return `invoice_paid:${fact.invoiceRef}`
    case 'invoice_payment':
      return `invoice_payment:${fact.invoiceRef}:${fact.paymentRef}`
    case 'invoice_failed':
      return `invoice_failed:${fact.invoiceRef}:${fact.attempt}`
    case 'subscription':
      return `subscription:${fact.subscriptionRef}`
    case 'end_scheduled':
      return `${endsScheduledOf(fact.subscriptionRef)}${sourceKey}`
    case 'subscription_ended':
      return `subscription_ended:${fact.subscriptionRef}`
  }
}

/**
 * The prefix of the keys of changes of a subscription's end. Each change counts, because the processor's clock counts in
 * seconds; only the newest are kept.
 */
export function endsScheduledOf(subscriptionRef: string): string {
  return `end_scheduled:${subscriptionRef}:`
}

/** One fact that says what two facts with the same key say. Which of them became known first does not matter. */
export function mergeFacts(known: Fact, other: Fact): Fact {
  const both = union(known, other)
  if (both.kind === 'charge' && known.kind === 'charge' && other.kind === 'charge') {
    return { ...latestOf(known, other), refunded: Math.max(known.refunded, other.refunded) }
  }
  if (both.kind === 'checkout' && other.kind === 'checkout') {
    return other.at < both.at ? union(other, both) : both
  }
  if (both.kind === 'refund' && other.kind === 'refund') {
    const hadSucceeded = both.hadSucceeded || other.hadSucceeded
    return { ...both, hadSucceeded, reportedAt: earliest(both.reportedAt, other.reportedAt) }
  }
  if (both.kind === 'dispute' && other.kind === 'dispute') {
    return {
      ...both,
      wasInquiry: both.wasInquiry || other.wasInquiry,
      opening: both.opening || other.opening,
      reportedAt: earliest(both.reportedAt, other.reportedAt),
    }
  }
  if (both.kind === 'invoice_paid' && other.kind === 'invoice_paid') {
    const reason = other.reason === 'first' ? other.reason : both.reason
    return { ...both, reason, paidAt: Math.min(both.paidAt, other.paidAt) }
  }
  if (both.kind === 'invoice_failed' && other.kind === 'invoice_failed') {
    return { ...both, at: Math.min(both.at, other.at) }
  }
  return both
}

function latestOf(one: ChargeFact, other: ChargeFact): ChargeFact {
  return other.reportedAt > one.reportedAt ? union(other, one) : union(one, other)
}

/** The fields of both; those of the first if both have them. */
function union<Kind extends Fact>(first: Kind, second: Fact): Kind {
  const given = Object.entries(first).filter(([, value]) => value !== undefined)
  return { ...second, ...Object.fromEntries(given) } as Kind
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)
}
