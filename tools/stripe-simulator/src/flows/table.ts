import { z } from 'zod'
import { authorize, deauthorize } from '../api/accounts.ts'
import { impossible, noSuch } from '../api/errors.ts'
import { flag, integer, read, text, type Shape } from '../api/forms.ts'
import { newId } from '../ids.ts'
import { refundStatuses } from '../objects/refund.ts'
import type { Subscription } from '../objects/wire.ts'
import { at, causedBy, need, realTime, settingsOf, type World } from '../world.ts'
import { expireSession, failSession, paySession, putPrice } from './checkout.ts'
import { closeDispute, disputeOutcomes, escalateDispute, openDispute } from './dispute.ts'
import { subscriptionOf } from './invoice.ts'
import { addInvoiceItems, addItem, changePrice, prorations, removeItem } from './items.ts'
import { findPaidCharge, finishCapture } from './payment.ts'
import { changeRefund, refundCharge } from './refund.ts'
import {
  buyer,
  cancelAtPeriodEnd,
  changeCard,
  endReasons,
  endSubscription,
  failInvoice,
  pauseBehaviors,
  payInvoice,
  renew,
  undoCancel,
  updateSubscription,
} from './subscription.ts'

/** An action of a customer, a bank or a vendor, or the passing of time. It returns the object that it changed. */
type Flow = (world: World, values: object) => object

function flow<Known extends Shape>(
  shape: Known,
  run: (world: World, parameters: z.output<z.ZodObject<Known>>) => object,
): Flow {
  return (world, values) => run(world, read(shape, values))
}

/** Any flow takes `created`, the time in Unix seconds at which it happens. */
const created = integer().optional()
const charge = text
const amount = integer(1).optional()
const force = flag.default(false)
const account = text
const proration = z.enum(prorations).default('always_invoice')

const sessionIn = (world: World, id: string) => need(world.sessions, 'checkout session', id)

/** A flow of a subscription that has not ended. */
function ofSubscription<Known extends Shape>(
  shape: Known,
  run: (world: World, subscription: Subscription, parameters: z.output<z.ZodObject<Known>>) => object,
): Flow {
  return (world, values) => {
    const { subscription: id, ...rest } = values as { subscription?: unknown }
    const named = read({ subscription: text }, { subscription: id })
    const subscription = need(world.subscriptions, 'subscription', named.subscription)
    if (subscription.status === 'canceled') throw impossible(`${subscription.id} has ended`)
    return run(world, subscription, read(shape, rest))
  }
}

const flows: Record<string, Flow> = {
  pay: flow(
    {
      session: text,
      method: z.enum(['card', 'delayed']).default('card'),
      email: text.default(buyer),
      discount: integer().default(0),
    },
    (world, { session, ...paying }) => paySession(world, sessionIn(world, session), paying),
  ),
  fail: flow({ session: text, email: text.default(buyer) }, (world, { session, email }) =>
    failSession(world, sessionIn(world, session), email),
  ),
  expire: flow({ session: text }, (world, { session }) => expireSession(world, sessionIn(world, session))),
  capture: flow({ charge }, (world, of) => finishCapture(world, findPaidCharge(world, of.charge))),

  refund: flow(
    {
      charge,
      amount,
      force,
      status: z.enum(refundStatuses).default('succeeded'),
    },
    (world, { charge: id, ...refunding }) => refundCharge(world, findPaidCharge(world, id), refunding),
  ),
  'refund-status': flow({ refund: text, status: z.enum(refundStatuses) }, (world, { refund, status }) =>
    changeRefund(world, need(world.refunds, 'refund', refund), status),
  ),
  dispute: flow(
    { charge, amount, force, kind: z.enum(['chargeback', 'inquiry']).default('chargeback') },
    (world, { charge: id, ...disputing }) => openDispute(world, findPaidCharge(world, id), disputing),
  ),
  'escalate-dispute': flow({ dispute: text }, (world, { dispute }) =>
    escalateDispute(world, need(world.disputes, 'dispute', dispute)),
  ),
  'close-dispute': flow({ dispute: text, outcome: z.enum(disputeOutcomes) }, (world, { dispute, outcome }) =>
    closeDispute(world, need(world.disputes, 'dispute', dispute), outcome),
  ),

  renew: ofSubscription({ created, first_part: integer(1).optional() }, (world, subscription, of) => {
    renew(world, subscription, { created: of.created, firstPart: of.first_part })
    return subscription
  }),
  'fail-invoice': ofSubscription(
    { created, manual: flag.default(false), after_final: z.enum(['leave', 'cancel']).default('leave') },
    (world, subscription, { created: time, manual, after_final: afterFinal }) =>
      failInvoice(world, subscription, { created: time, isManual: manual, afterFinal }),
  ),
  'pay-invoice': flow({ invoice: text }, (world, { invoice: id }) => {
    const invoice = need(world.invoices, 'invoice', id)
    if (invoice.status !== 'draft' && invoice.status !== 'open')
      throw impossible(`${id} is ${invoice.status}`)
    payInvoice(world, subscriptionOf(world, invoice), invoice)
    return invoice
  }),
  'pause-collection': ofSubscription(
    { behavior: z.enum(pauseBehaviors).optional() },
    (world, subscription, { behavior }) =>
      updateSubscription(world, subscription, {
        pause_collection: behavior === undefined ? null : { behavior, resumes_at: null },
      }),
  ),
  cancel: ofSubscription(
    {
      when: z.enum(['now', 'period_end', 'undo']).default('now'),
      reason: z.enum(endReasons).default('cancellation_requested'),
    },
    (world, subscription, { when, reason }) => {
      if (when === 'now') return endSubscription(world, subscription, reason)
      return when === 'undo' ? undoCancel(world, subscription) : cancelAtPeriodEnd(world, subscription)
    },
  ),
  'change-card': ofSubscription({}, changeCard),
  'change-price': ofSubscription({ price: text, proration }, (world, subscription, of) =>
    changePrice(world, subscription, of.price, of.proration),
  ),
  'add-item': ofSubscription({ price: text, proration }, (world, subscription, of) =>
    addItem(world, subscription, of.price, of.proration),
  ),
  'remove-item': ofSubscription({ item: text, proration }, (world, subscription, of) =>
    removeItem(world, subscription, of.item, of.proration),
  ),
  'invoice-item': ofSubscription({ count: integer(1).default(1) }, (world, subscription, of) =>
    addInvoiceItems(world, subscription, of.count),
  ),

  deauthorize: flow({ account }, (world, of) => deauthorize(world, of.account)),
  authorize: flow({ account }, (world, of) => authorize(world, of.account)),
  'set-price': flow(
    {
      id: text,
      account,
      active: flag.default(true),
      unit_amount: integer(),
      currency: text.regex(/^[a-z]{3}$/),
      recurring: z
        .strictObject({
          interval: z.enum(['day', 'week', 'month', 'year']),
          interval_count: integer(1).default(1),
        })
        .optional(),
    },
    (world, { account: owner, unit_amount: unitAmount, recurring, ...price }) =>
      putPrice(
        world,
        owner,
        {
          ...price,
          unitAmount,
          recurring: recurring
            ? { interval: recurring.interval, intervalCount: recurring.interval_count }
            : null,
        },
        false,
      ),
  ),
  settings: flow(
    {
      account,
      capture: z.enum(['immediate', 'asynchronous']).optional(),
      api_version: text.optional(),
      tax_percent: integer().optional(),
      billing_portal: flag.optional(),
    },
    (world, { account: of, capture, ...changed }) => {
      const { api_version: apiVersion, tax_percent: taxPercent, billing_portal: billingPortal } = changed
      world.settings.set(of, {
        ...world.settings.get(of),
        ...(capture !== undefined && { capture }),
        ...(apiVersion !== undefined && { apiVersion }),
        ...(taxPercent !== undefined && { taxPercent }),
        ...(billingPortal !== undefined && { billingPortal }),
      })
      return settingsOf(world, of)
    },
  ),
}

/** Runs a flow at `created`, or else at the present time of its customer. */
export function runFlow(world: World, name: string, values: unknown): object {
  const run = Object.hasOwn(flows, name) ? flows[name] : undefined
  if (run === undefined) throw noSuch('action', name)
  const given = { ...(Object(values) as Record<string, unknown>) }
  const time = read({ created }, { created: given['created'] }).created
  // Only an attempt to collect an invoice behaves differently at a given time.
  if (name !== 'renew' && name !== 'fail-invoice') delete given['created']
  // Stripe treats the actions of a vendor in its dashboard as API calls.
  const isVendors = name === 'refund' || (name === 'cancel' && given['reason'] !== 'payment_failed')
  const cause = { id: isVendors ? newId('req') : null, idempotency_key: null }
  const now = realTime() + (world.ahead.get(customerOf(world, Object.values(given)) ?? '') ?? 0)
  return at(world, time ?? now, () => causedBy(world, cause, () => run(world, given)))
}

/** The customer of a flow, by the id of any of the customer's objects. */
function customerOf(world: World, ids: unknown[]): string | undefined {
  for (const each of ids) {
    const id = String(each)
    const chargeId = world.refunds.get(id)?.charge ?? world.disputes.get(id)?.charge ?? id
    const customer =
      world.subscriptions.get(id)?.customer ??
      world.sessions.get(id)?.customer ??
      world.invoices.get(id)?.customer ??
      world.paymentIntents.get(id)?.customer ??
      world.charges.get(chargeId)?.customer
    if (customer) return customer
  }
  return undefined
}
