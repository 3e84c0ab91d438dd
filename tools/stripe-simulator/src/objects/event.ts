import type { EventOf } from './wire.ts'

/** The event types that this simulator emits, and to which the platform's endpoint is subscribed. */
export const eventTypes = [
  'account.application.deauthorized',
  'application_fee.created',
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
