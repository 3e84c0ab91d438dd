import type { SimulatedEvent } from '../objects/event.ts'
import type { SubscriptionState } from '../objects/subscription.ts'
import type {
  ApplicationFee,
  Charge,
  CheckoutSession,
  Dispute,
  Invoice,
  InvoicePayment,
  Metadata,
  PaymentIntent,
  Price,
  Refund,
  Subscription,
  WebhookEndpoint,
} from '../objects/wire.ts'
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

const collections = [
  'prices',
  'agreedPrices',
  'sessions',
  'checkoutPlans',
  'paymentIntents',
  'charges',
  'openCaptures',
  'refunds',
  'disputes',
  'applicationFees',
  'subscriptions',
  'subscriptionStates',
  'invoices',
  'invoicePayments',
  'webhookEndpoints',
  'events',
] as const

/** All state as plain JSON. */
export function dumpWorld(world: World) {
  return {
    clock: world.clock.setting(),
    settings: world.settings.dump(),
    deauthorized: [...world.deauthorized],
    collections: Object.fromEntries(collections.map((name) => [name, world[name].dump()])),
  }
}

type Saved = Omit<ReturnType<typeof dumpWorld>, 'settings'> & Partial<ReturnType<typeof dumpWorld>>

export function restoreWorld(world: World, saved: Saved): void {
  world.clock.restore(saved.clock)
  world.settings.restore(saved.settings ?? {})
  world.deauthorized.clear()
  world.consents.clear()
  for (const account of saved.deauthorized) world.deauthorized.add(account)
  // The dump came from these very collections, name by name.
  for (const name of collections) world[name].restore((saved.collections[name] ?? []) as never[])
}

/** What a checkout session was asked to do on payment, and does not show. Has the session's id. */
type CheckoutPlan = {
  id: string
  created: number
  /** Prices as they were when the session opened. */
  lines: { lineId: string; price: Price; quantity: number }[]
  metadata: Metadata
  description: string | null
  applicationFeeAmount: number | null
  applicationFeePercent: number | null
}
