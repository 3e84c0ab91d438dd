import type {
  Application,
  ApplicationFee,
  Charge,
  CheckoutSession,
  Dispute,
  FeeRefund,
  Invoice,
  PaymentIntent,
  Refund,
  Subscription,
} from './wire.ts'

export const apiVersion = '2026-10-28.endive'

/** The event types that this simulator makes, each with the object that it carries. */
export type EventObjects = {
  'account.application.authorized': Application
  'account.application.deauthorized': Application
  'application_fee.created': ApplicationFee
  'application_fee.refund.updated': FeeRefund
  'application_fee.refunded': ApplicationFee
  'charge.dispute.closed': Dispute
  'charge.dispute.created': Dispute
  'charge.dispute.updated': Dispute
  'charge.failed': Charge
  'charge.refunded': Charge
  'charge.succeeded': Charge
  'checkout.session.async_payment_failed': CheckoutSession
  'checkout.session.async_payment_succeeded': CheckoutSession
  'checkout.session.completed': CheckoutSession
  'checkout.session.expired': CheckoutSession
  'customer.subscription.created': Subscription
  'customer.subscription.deleted': Subscription
  'customer.subscription.updated': Subscription
  'invoice.paid': Invoice
  'invoice.payment_failed': Invoice
  'payment_intent.payment_failed': PaymentIntent
  'payment_intent.succeeded': PaymentIntent
  'refund.created': Refund
  'refund.failed': Refund
  'refund.updated': Refund
}

export type EventType = keyof EventObjects

/** The API call or dashboard click that caused an event; both null when the customer or time did. */
export type Cause = { id: string | null; idempotency_key: string | null }

export type SimulatedEvent = {
  id: string
  object: 'event'
  /** The connected account; absent on events of the platform itself. */
  account?: string
  api_version: string
  created: number
  data: { object: object; previous_attributes?: object }
  livemode: boolean
  pending_webhooks: number
  request: Cause
  type: string
}

/** What the platform's endpoint is subscribed to by default. */
export const defaultEnabledEvents: EventType[] = [
  'account.application.deauthorized',
  'application_fee.created',
  'application_fee.refund.updated',
  'application_fee.refunded',
  'charge.dispute.closed',
  'charge.dispute.created',
  'charge.dispute.updated',
  'charge.refunded',
  'checkout.session.async_payment_failed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.completed',
  'checkout.session.expired',
  'customer.subscription.deleted',
  'customer.subscription.updated',
  'invoice.paid',
  'invoice.payment_failed',
  'refund.created',
  'refund.failed',
  'refund.updated',
]
