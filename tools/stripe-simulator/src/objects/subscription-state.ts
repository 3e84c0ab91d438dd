import type { InvoiceLine } from './wire.ts'

/** What the vendor's settings do to a subscription after the last attempt to collect. */
export const finalActions = ['cancel', 'unpaid', 'leave'] as const
export type FinalAction = (typeof finalActions)[number]

/** What Stripe knows of a subscription and does not show on it. Has the subscription's id. */
export type SubscriptionState = {
  id: string
  created: number
  /** The customer's balance: negative is credit, which the next invoices use up. */
  balance: number
  /** Prorations that wait for the next invoice. */
  pendingLines: InvoiceLine[]
  /** How attempts end that time makes, as against a control action. */
  cardDeclines: boolean
  afterFinal: FinalAction
}

export function newSubscriptionState(id: string, created: number): SubscriptionState {
  return { id, created, balance: 0, pendingLines: [], cardDeclines: false, afterFinal: 'leave' }
}
