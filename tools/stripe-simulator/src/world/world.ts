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
  WebhookEndpoint,
} from '../objects/wire.ts'
import type { CheckoutPlan } from '../objects/checkout-plan.ts'
import type { SubscriptionState } from '../objects/subscription-state.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { Clock } from './clock.ts'
import { Collection } from './collection.ts'
import { Emitter } from './emitter.ts'
import { Settings } from './settings.ts'

/** A vendor's consent, under its code. */
export type Consent = { account: string; expires_at: number }

/** Everything the simulated Stripe knows. */
export type World = ReturnType<typeof newWorld>

export function newWorld() {
  const clock = new Clock()
  const settings = new Settings()
  const events = new Collection<SimulatedEvent>()
  return {
    clock,
    events,
    settings,
    emitter: new Emitter(clock, events, settings),
    prices: new Collection<Price>(),
    /** Which of the prices are known only from what a checkout was agreed at. */
    agreedPrices: new Collection<{ id: string; created: number }>(),
    sessions: new Collection<CheckoutSession>(),
    checkoutPlans: new Collection<CheckoutPlan>(),
    paymentIntents: new Collection<PaymentIntent>(),
    charges: new Collection<Charge>(),
    /** Charges whose asynchronous capture is under way. */
    openCaptures: new Collection<{ id: string; created: number; due_at: number }>(),
    refunds: new Collection<Refund>(),
    disputes: new Collection<Dispute>(),
    applicationFees: new Collection<ApplicationFee>(),
    subscriptions: new Collection<Subscription>(),
    subscriptionStates: new Collection<SubscriptionState>(),
    invoices: new Collection<Invoice>(),
    invoicePayments: new Collection<InvoicePayment>(),
    webhookEndpoints: new Collection<WebhookEndpoint>(),
    deauthorized: new Set<string>(),
    /** Codes of the consent page that have not been exchanged; a restart ends them. */
    consents: new Map<string, Consent>(),
    /** Where the hosted checkout page is; known once the server listens. */
    publicUrl: '',
  }
}

export function checkoutUrl({ publicUrl }: World, sessionId: string): string {
  return `${publicUrl}/pay/${sessionId}`
}
