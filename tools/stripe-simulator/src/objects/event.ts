import type { EventOf } from './wire.ts'

/** The event types that this simulator emits. */
export const eventTypes = [
  'account.application.authorized',
  'account.application.deauthorized',
  'application_fee.created',
  'application_fee.refunded',
  'charge.dispute.closed',
  'charge.dispute.created',
  'charge.dispute.funds_reinstated',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.updated',
  'charge.failed',
  'charge.pending',
  'charge.refund.updated',
  'charge.refunded',
  'charge.succeeded',
  'charge.updated',
  'checkout.session.async_payment_failed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.completed',
  'checkout.session.expired',
  'customer.subscription.created',
  'customer.subscription.deleted',
  'customer.subscription.updated',
  'invoice.created',
  'invoice.finalized',
  'invoice.marked_uncollectible',
  'invoice.paid',
  'invoice.payment_failed',
  'invoice.payment_succeeded',
  'invoice.voided',
  'invoice_payment.paid',
  'payment_intent.created',
  'payment_intent.payment_failed',
  'payment_intent.processing',
  'payment_intent.succeeded',
  'refund.created',
  'refund.failed',
  'refund.updated',
] as const

export type EventType = (typeof eventTypes)[number]

/** The object in each type of event, by Stripe's types. */
export type EventObjects = {
  [Type in EventType]: EventOf<Type> extends { data: { object: infer Carried } } ? Carried : never
}

export type SimulatedEvent = {
  id: string
  object: 'event'
  /** The connected account; absent for events of the platform. */
  account?: string
  api_version: string
  created: number
  data: { object: object; previous_attributes?: object }
  livemode: boolean
  pending_webhooks: number
  request: { id: string | null; idempotency_key: string | null }
  type: string
}

/** The event types to which the platform's endpoint is subscribed by default. */
export const defaultEnabledEvents: string[] = [
  'account.application.deauthorized',
  'application_fee.created',
  'application_fee.refund.updated',
  'application_fee.refunded',
  'charge.dispute.closed',
  'charge.dispute.created',
  'charge.dispute.updated',
  'charge.refund.updated',
  'charge.refunded',
  'charge.succeeded',
  'charge.updated',
  'checkout.session.async_payment_failed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.completed',
  'checkout.session.expired',
  'customer.subscription.deleted',
  'customer.subscription.updated',
  'invoice.paid',
  'invoice.payment_failed',
  'invoice.payment_succeeded',
  'invoice_payment.paid',
  'refund.created',
  'refund.failed',
  'refund.updated',
]
