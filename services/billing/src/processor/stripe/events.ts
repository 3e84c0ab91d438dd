import { Stripe } from 'stripe'
import type { CheckoutFact, Fact } from '../facts.ts'
import { NotUnderstood } from '../processor.ts'
import type { Reading } from '../processor.ts'
import {
  checkoutPaid,
  readCharge,
  readCheckout,
  readDispute,
  readFailedInvoice,
  readInvoicePayment,
  readPaidInvoice,
  readRefund,
} from './read.ts'
import { readEndedSubscription, readScheduledEnd } from './read-subscription.ts'
import { optionalShape, shapeOf, textIn, timeIn, wordIn } from './shape.ts'
import type { Shape } from './shape.ts'

interface EventParts {
  object: Shape
  at: number
  /** The previous values of the fields that changed, if the event contains them. */
  previous: Shape
  /** The previous status of the object, if the event contains it. */
  before: string | undefined
}

type Reader = (event: EventParts) => Fact | undefined

const checkout =
  (state: CheckoutFact['state']): Reader =>
  ({ object, at }) =>
    readCheckout(object, state, at)
const charge: Reader = ({ object, at }) => readCharge(object, at)
const refund: Reader = ({ object, at, before }) => readRefund(object, at, before)
const dispute =
  (opening: boolean): Reader =>
  ({ object, at, before }) =>
    readDispute(object, at, { before, opening })
const paidInvoice: Reader = ({ object, at }) => readPaidInvoice(object, at)

const disconnected = 'account.application.deauthorized'

/** All types of events that are used. Others are acknowledged and ignored. */
const readers: Readonly<Record<string, Reader>> = {
  'checkout.session.completed': ({ object, at }) =>
    readCheckout(object, wordIn(object, 'payment_status', checkoutPaid), at),
  'checkout.session.async_payment_succeeded': ({ object, at }) => ({
    ...readCheckout(object, 'paid', at),
    wasDelayed: true,
  }),
  'checkout.session.async_payment_failed': checkout('failed'),
  'checkout.session.expired': checkout('expired'),
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
  'invoice.paid': paidInvoice,
  'invoice.payment_succeeded': paidInvoice,
  'invoice_payment.paid': ({ object }) => readInvoicePayment(object),
  'invoice.payment_failed': ({ object, at }) => readFailedInvoice(object, at),
  'customer.subscription.updated': ({ object, at, previous }) => readScheduledEnd(object, at, previous),
  'customer.subscription.deleted': ({ object, at }) => readEndedSubscription(object, at),
  // This event is about a merchant and not a purchase, so `readEvent` handles it.
  [disconnected]: () => undefined,
}

/** The types to subscribe the platform's endpoint to. */
export const usedEventTypes = Object.keys(readers)

/** The types to list. The type that reports the same as `invoice.paid` is omitted, so that one request can list all types. */
export const listedEventTypes = usedEventTypes.filter((type) => type !== 'invoice.payment_succeeded')

export function isUsed(type: string): boolean {
  return Object.hasOwn(readers, type)
}

/** Stripe's releases of one line, such as `endive`, are compatible. */
const line = lineOf(Stripe.API_VERSION)

/** @param version may be followed by previews that the account takes part in, such as `;managed_payments_preview=v1` */
function lineOf(version: string): string {
  const [release = ''] = version.split(';')
  return release.slice(release.indexOf('.') + 1)
}

/** Whether an event has the shapes that are read here. */
export function isOfUsedVersion(version: unknown): boolean {
  return typeof version === 'string' && lineOf(version) === line
}

/**
 * Reads an event.
 *
 * @throws NotUnderstood if its type is used, but its API version or shape is not the expected one
 */
export function readEvent(body: Uint8Array): Reading {
  const event = shapeOf(parsed(body), 'the event')
  const type = textIn(event, 'type')
  if (!isUsed(type)) return undefined
  const at = timeIn(event, 'created')
  if (type === disconnected) return { disconnectedAt: new Date(at) }
  const version = event['api_version']
  if (typeof version === 'string' && !isOfUsedVersion(version)) {
    throw new NotUnderstood(`API version ${version.slice(0, 40)} is not of the line ${line}`)
  }
  const data = shapeOf(event['data'], 'data')
  const previous = optionalShape(data['previous_attributes']) ?? {}
  const before = previous['status']
  const fact = readers[type]!({
    object: shapeOf(data['object'], 'data.object'),
    at,
    previous,
    before: typeof before === 'string' ? before : undefined,
  })
  return fact && { fact }
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'))
  } catch (error) {
    throw new NotUnderstood('the body is not JSON', { cause: error })
  }
}
