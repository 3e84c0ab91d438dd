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

/** A vendor's consent, stored by its code. */
export type Consent = { account: string; expires_at: number }

/** The whole state of the simulator. */
export type World = ReturnType<typeof newWorld>

export function newWorld() {
  const clock = new Clock()
  const settings = new Settings()
  const events = new Collection<SimulatedEvent>()
  return {
    clock,
    events,
    settings,
    emitter: new Emitter(clock, events),
    prices: new Collection<Price>(),
    /** The ids of prices that come from a checkout's metadata. */
    agreedPrices: new Collection<{ id: string; created: number }>(),
    sessions: new Collection<CheckoutSession>(),
    checkoutPlans: new Collection<CheckoutPlan>(),
    paymentIntents: new Collection<PaymentIntent>(),
    charges: new Collection<Charge>(),
    /** Charges with an unfinished asynchronous capture. */
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
    /** Base URL of the checkout page. It is set when the server listens. */
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
  // `dumpWorld` wrote each collection under its own name, so the types match.
  for (const name of collections) world[name].restore((saved.collections[name] ?? []) as never[])
}

/** Data of a checkout session that is needed when it is paid but not part of the object. It has the session's id. */
type CheckoutPlan = {
  id: string
  created: number
  /** The prices at the time when the session was opened. */
  lines: { price: Price; quantity: number }[]
  metadata: Metadata
  description: string | null
  applicationFeeAmount: number | null
  applicationFeePercent: number | null
}
