import type { Fact } from '../processor/facts.ts'

/**
 * The subject of a fact: an object of the processor in a state that counts. Only one fact with a key is kept, so
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
  const merge = merges[known.kind] as Merge<Fact> | undefined
  return { ...union(known, other), ...merge?.(known, other) } as Fact
}

type Merge<Kind extends Fact> = (known: Kind, other: Kind) => Partial<Kind>

/** The fields in which two facts with the same key may differ. If other fields differ, any of the values is kept. */
const merges: { [Kind in Fact['kind']]?: Merge<Extract<Fact, { kind: Kind }>> } = {
  charge: (known, other) => ({
    ...(other.reportedAt > known.reportedAt && union(other, known)),
    refunded: Math.max(known.refunded, other.refunded),
  }),
  checkout: (known, other) => (other.at < known.at ? union(other, known) : {}),
  refund: (known, other) => ({
    hadSucceeded: known.hadSucceeded || other.hadSucceeded,
    reportedAt: earliest(known.reportedAt, other.reportedAt),
  }),
  dispute: (known, other) => ({
    wasInquiry: known.wasInquiry || other.wasInquiry,
    opening: known.opening || other.opening,
    reportedAt: earliest(known.reportedAt, other.reportedAt),
  }),
  invoice_paid: (known, other) => ({
    reason: other.reason === 'first' ? other.reason : known.reason,
    paidAt: Math.min(known.paidAt, other.paidAt),
  }),
  invoice_failed: (known, other) => ({ at: Math.min(known.at, other.at) }),
}

/** The fields of both; those of the first if both have them. */
function union<Kind extends Fact>(first: Kind, second: Fact): Kind {
  const given = Object.entries(first).filter(([, value]) => value !== undefined)
  return { ...second, ...Object.fromEntries(given) } as Kind
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)
}
