import type Stripe from 'stripe'
import type { CheckoutFact, Fact } from '../processors/facts.ts'
import {
  readCharge,
  readCheckout,
  readDispute,
  readFailedInvoice,
  readPaidInvoice,
  readRefund,
  time,
} from './read.ts'

interface EventParts {
  object: unknown
  at: Date
  /** The status that the object had before, on events that tell what changed. */
  before: string | undefined
}

type Reader = (event: EventParts) => Fact | undefined

const checkout =
  (state: (session: Stripe.Checkout.Session) => CheckoutFact['state']): Reader =>
  ({ object, at }) => {
    const session = object as Stripe.Checkout.Session
    return readCheckout(session, state(session), at)
  }
const charge: Reader = ({ object, at }) => {
  const charge = object as Stripe.Charge
  // A payment may have failed charges beside the one that paid it.
  return charge.status === 'succeeded' ? readCharge(charge, at) : undefined
}
const refund: Reader = ({ object, at, before }) => readRefund(object as Stripe.Refund, at, before)
const dispute =
  (opening: boolean): Reader =>
  ({ object, at, before }) =>
    readDispute(object as Stripe.Dispute, at, { before, opening })

/** Every type of event that means something here; all others are acknowledged and let go. */
const readers: Readonly<Record<string, Reader>> = {
  // `unpaid`: a delayed method, whose outcome is told later.
  'checkout.session.completed': checkout(({ payment_status: status }) =>
    status === 'paid' || status === 'no_payment_required' ? 'paid' : 'unpaid',
  ),
  'checkout.session.async_payment_succeeded': checkout(() => 'paid'),
  'checkout.session.async_payment_failed': checkout(() => 'failed'),
  'checkout.session.expired': checkout(() => 'expired'),
  'charge.succeeded': charge,
  'charge.updated': charge,
  'charge.refunded': charge,
  'charge.refund.updated': refund,
  'refund.created': refund,
  'refund.updated': refund,
  'refund.failed': refund,
  'charge.dispute.created': dispute(true),
  'charge.dispute.updated': dispute(false),
  'charge.dispute.closed': dispute(false),
  'invoice.paid': ({ object, at }) => readPaidInvoice(object as Stripe.Invoice, at),
  'invoice.payment_succeeded': ({ object, at }) => readPaidInvoice(object as Stripe.Invoice, at),
  'invoice.payment_failed': ({ object, at }) => readFailedInvoice(object as Stripe.Invoice, at),
  'customer.subscription.deleted': ({ object, at }) => {
    const subscription = object as Stripe.Subscription
    return {
      kind: 'subscription_ended',
      subscriptionRef: subscription.id,
      sessionId: subscription.metadata?.licensing_session_id,
      endedAt: subscription.ended_at ? time(subscription.ended_at) : at,
      paymentsFailed: subscription.cancellation_details?.reason === 'payment_failed',
    }
  },
  'account.application.deauthorized': ({ at }) => ({ kind: 'disconnected', at }),
}

/** The types to ask Stripe's own list of events for. */
export const usedEventTypes = Object.keys(readers)

export function isUsed(type: string): boolean {
  return Object.hasOwn(readers, type)
}

/** What an event says, or nothing where it says nothing to us. */
export function factsOf(body: Uint8Array): Fact[] {
  const event = JSON.parse(Buffer.from(body).toString('utf8')) as {
    type: string
    created: number
    data: { object: unknown; previous_attributes?: { status?: unknown } }
  }
  const before = event.data.previous_attributes?.status
  const fact = isUsed(event.type)
    ? readers[event.type]!({
        object: event.data.object,
        at: time(event.created),
        before: typeof before === 'string' ? before : undefined,
      })
    : undefined
  return fact ? [fact] : []
}
