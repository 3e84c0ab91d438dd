import type Stripe from 'stripe'

/**
 * A Stripe type as JSON without expanded references: a reference is an id, a decimal is a string, and an enumeration has
 * only documented values. With it, the compiler checks every object of the simulator against Stripe's types.
 */
type Wire<T> = T extends Stripe.Decimal
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Closed<Unexpanded<Item>>>[]
    : T extends object
      ? { [Key in keyof T]: Wire<Closed<Unexpanded<T[Key]>>> }
      : T

type Unexpanded<T> = [Extract<T, string>] extends [never] ? T : Exclude<T, object>

/** Removes `| OtherString`, with which Stripe's enumerations accept any string. */
type Closed<T> = [Literals<T>] extends [never] ? T : Literals<T> | Exclude<T, string>
type Literals<T> = T extends string ? (string extends T ? never : T) : never

/** The event of a type, with its object. */
export type EventOf<Type extends string> = Wire<Extract<Stripe.Event, { type: Type }>>

export type Account = Wire<Stripe.Account>
export type Application = Wire<Stripe.Application>
export type ApplicationFee = Wire<Stripe.ApplicationFee>
export type BalanceTransaction = Wire<Stripe.BalanceTransaction>
export type BillingPortalSession = Wire<Stripe.BillingPortal.Session>
export type Charge = Wire<Stripe.Charge>
export type CheckoutSession = Wire<Stripe.Checkout.Session>
export type Dispute = Wire<Stripe.Dispute>
export type FeeRefund = Wire<Stripe.FeeRefund>
export type Invoice = Wire<Stripe.Invoice>
export type InvoiceLine = Wire<Stripe.InvoiceLineItem>
export type InvoicePayment = Wire<Stripe.InvoicePayment>
export type PaymentIntent = Wire<Stripe.PaymentIntent>
export type Price = Wire<Stripe.Price>
export type Refund = Wire<Stripe.Refund>
export type Subscription = Wire<Stripe.Subscription>
export type WebhookEndpoint = Wire<Stripe.WebhookEndpoint>
export type SubscriptionItem = Wire<Stripe.SubscriptionItem>

export type Metadata = Record<string, string>
export type Mode = 'payment' | 'subscription'
export type PaymentMethod = 'card' | 'delayed'

type Names<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Names<Rest> : Text

/** Members that are null, by their names: what a simulated object does not have. */
export function nulls<const Text extends string>(names: Text): Record<Names<Text>, null> {
  return Object.fromEntries(names.split(' ').map((name) => [name, null])) as Record<Names<Text>, null>
}

export type List<T> = { object: 'list'; data: T[]; has_more: boolean; url: string }

export function listOf<T>(url: string, data: T[]): List<T> {
  return { object: 'list', data, has_more: false, url }
}

/** Stripe's types by the value of `object`. */
export type ObjectOf = {
  account: Account
  application_fee: ApplicationFee
  'billing_portal.session': BillingPortalSession
  charge: Charge
  'checkout.session': CheckoutSession
  dispute: Dispute
  fee_refund: FeeRefund
  invoice: Invoice
  invoice_payment: InvoicePayment
  line_item: InvoiceLine
  list: List<unknown>
  payment_intent: PaymentIntent
  price: Price
  refund: Refund
  subscription: Subscription
  subscription_item: SubscriptionItem
  webhook_endpoint: WebhookEndpoint
}
