import type {
  ApplicationFee,
  Charge,
  CheckoutSession,
  Dispute,
  Invoice,
  InvoicePayment,
  PaymentIntent,
  Price,
  Refund,
  Subscription,
} from '../objects/wire.ts'
import type { CheckoutPlan } from '../objects/checkout-plan.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { Clock } from './clock.ts'
import { Collection } from './collection.ts'
import { Emitter } from './emitter.ts'

/** Everything the simulated Stripe knows. */
export type World = ReturnType<typeof newWorld>

export function newWorld() {
  const clock = new Clock()
  const events = new Collection<SimulatedEvent>()
  return {
    clock,
    events,
    emitter: new Emitter(clock, events),
    prices: new Collection<Price>(),
    sessions: new Collection<CheckoutSession>(),
    checkoutPlans: new Collection<CheckoutPlan>(),
    paymentIntents: new Collection<PaymentIntent>(),
    charges: new Collection<Charge>(),
    refunds: new Collection<Refund>(),
    disputes: new Collection<Dispute>(),
    applicationFees: new Collection<ApplicationFee>(),
    subscriptions: new Collection<Subscription>(),
    invoices: new Collection<Invoice>(),
    invoicePayments: new Collection<InvoicePayment>(),
    deauthorized: new Set<string>(),
    /** Where the hosted checkout page is; known once the server listens. */
    publicUrl: '',
  }
}

export function checkoutUrl({ publicUrl }: World, sessionId: string): string {
  return `${publicUrl}/pay/${sessionId}`
}
