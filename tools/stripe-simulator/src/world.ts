import type { SimulatedEvent } from './objects/event.ts'
import type {
  ApplicationFee,
  BillingPortalSession,
  Charge,
  CheckoutSession,
  Dispute,
  Invoice,
  InvoiceLine,
  InvoicePayment,
  Metadata,
  PaymentIntent,
  Price,
  Refund,
  Subscription,
} from './objects/wire.ts'
import { apiVersion } from './objects/api-version.ts'
import { noSuch } from './api/errors.ts'

/** The account that an object belongs to; null is the platform. */
export type Owner = string | null

/** The whole state of the simulator. */
export type World = ReturnType<typeof newWorld>

export function newWorld(deliver: (event: SimulatedEvent) => void) {
  return {
    // Stripe's objects by their ids, oldest first.
    sessions: new Map<string, CheckoutSession>(),
    paymentIntents: new Map<string, PaymentIntent>(),
    charges: new Map<string, Charge>(),
    refunds: new Map<string, Refund>(),
    disputes: new Map<string, Dispute>(),
    applicationFees: new Map<string, ApplicationFee>(),
    subscriptions: new Map<string, Subscription>(),
    invoices: new Map<string, Invoice>(),
    invoicePayments: new Map<string, InvoicePayment>(),
    portalSessions: new Map<string, BillingPortalSession>(),
    events: new Map<string, SimulatedEvent>(),
    owners: new Map<string, Owner>(),
    /** By `priceKey`, because vendors choose the ids. `agreed`: it comes from a checkout's metadata, which may change it. */
    prices: new Map<string, { price: Price; agreed: boolean }>(),
    // Data that Stripe has about an object and does not show, by the object's id.
    orders: new Map<string, Order>(),
    ledgers: new Map<string, Ledger>(),
    openCaptures: new Set<string>(),
    /** Settings that differ from the usual ones, by account. */
    settings: new Map<string, Partial<Settings>>(),
    deauthorized: new Set<string>(),
    /** The accounts whose owners consented, by the code that has not been exchanged yet. */
    consents: new Map<string, string>(),
    /** The time of the present call or flow, in Unix seconds. */
    now: realTime(),
    /** How many seconds the clock of a customer is ahead, because a renewal moved it. */
    ahead: new Map<string, number>(),
    cause: nobody,
    deliver,
    /** Base URL of the pages for customers. It is set when the server listens. */
    publicUrl: '',
  }
}

/** Data of a checkout session that is needed when it is paid. */
export type Order = {
  /** The prices at the time when the session was opened. */
  lines: { price: Price; quantity: number }[]
  metadata: Metadata
  applicationFeeAmount: number | null
  applicationFeePercent: number | null
}

/** Amounts that change the next invoices of a subscription. */
export type Ledger = {
  /** The customer's balance. A negative balance is credit. */
  balance: number
  /** Prorations and the vendor's own items for the next invoice. */
  pendingLines: InvoiceLine[]
}

export type Settings = {
  /** `asynchronous`: the balance transaction and the application fee of a charge come when the capture is ended. */
  capture: 'immediate' | 'asynchronous'
  /** The API version in which events are listed. Deliveries have the endpoint's. */
  apiVersion: string
  /** Sales tax in percent, which is added to the price. */
  taxPercent: number
  /** Whether the vendor has saved the settings of its billing portal. Stripe opens none before that. */
  billingPortal: boolean
}

const usual: Settings = { capture: 'immediate', apiVersion, taxPercent: 0, billingPortal: true }

export function settingsOf(world: World, account: Owner): Settings {
  return { ...usual, ...world.settings.get(account ?? '') }
}

/** The API call or dashboard action that caused an event. Both are null if the customer or the passing of time caused it. */
export type Cause = { id: string | null; idempotency_key: string | null }

const nobody: Cause = { id: null, idempotency_key: null }

export function realTime(): number {
  return Math.floor(Date.now() / 1000)
}

/** Runs an action at a time, in Unix seconds. Actions are synchronous, so they never see the time of another one. */
export function at<Result>(world: World, time: number, action: () => Result): Result {
  const before = world.now
  world.now = time
  try {
    return action()
  } finally {
    world.now = before
  }
}

export function causedBy<Result>(world: World, cause: Cause, action: () => Result): Result {
  world.cause = cause
  try {
    return action()
  } finally {
    world.cause = nobody
  }
}

export function add<T extends { id: string }>(
  world: World,
  objects: Map<string, T>,
  account: Owner,
  object: T,
): T {
  objects.set(object.id, object)
  world.owners.set(object.id, account)
  return object
}

export function ownerOf(world: World, { id }: { id: string }): Owner {
  return world.owners.get(id) ?? null
}

/** @throws a 404 with `kind` in its text, if there is no such object */
export function need<T>(objects: Map<string, T>, kind: string, id: string | null): T {
  const object = objects.get(id ?? '')
  if (object === undefined) throw noSuch(kind, id ?? '')
  return object
}

/** An object of the account. An object of another account gets the same 404 as a missing one. */
export function needOwned<T>(
  world: World,
  account: Owner,
  objects: Map<string, T>,
  kind: string,
  id: string,
): T {
  if (objects.has(id) && world.owners.get(id) !== account) throw noSuch(kind, id)
  return need(objects, kind, id)
}

/** The account's objects that match, newest first, as Stripe lists them. In the same second, the last added comes first. */
export function list<T extends { id: string; created: number }>(
  world: World,
  account: Owner,
  objects: Map<string, T>,
  matches: (object: T) => boolean,
): T[] {
  const found = [...objects.values()].filter((each) => world.owners.get(each.id) === account && matches(each))
  return found.toReversed().toSorted((a, b) => b.created - a.created)
}

export function priceKey(account: Owner, id: string): string {
  return `${account ?? ''}/${id}`
}
