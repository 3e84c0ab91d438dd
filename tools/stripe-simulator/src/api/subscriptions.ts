import { findOwned } from '../flows/find.ts'
import { cancelAtPeriodEnd, endSubscription, undoCancel } from '../flows/subscription-status.ts'
import { noSuch } from '../http/stripe-error.ts'
import type { Subscription } from '../objects/wire.ts'
import { page, readList, readOne, type Call } from './call.ts'
import {
  invoiceLineList,
  invoiceList,
  invoicePaymentList,
  subscriptionCancel,
  subscriptionItemList,
  subscriptionList,
  subscriptionUpdate,
} from './parameters.ts'

export const getSubscription = readOne('subscriptions', 'subscription')

export function listSubscriptionItems({ world, account, params }: Call): object {
  const subscription = params.accept(subscriptionItemList).required('subscription')
  const { items } = findOwned(world.subscriptions, 'subscription', account, subscription)
  return page(items.url, params, items.data)
}

export function listSubscriptions({ world, account, params }: Call): object {
  params.accept(subscriptionList)
  const customer = params.string('customer')
  const status = params.string('status')
  const found = world.subscriptions.list(
    account,
    (each) =>
      (customer === undefined || each.customer === customer) &&
      (status === undefined ? each.status !== 'canceled' : status === 'all' || each.status === status),
  )
  return page('/v1/subscriptions', params, found)
}

export function updateSubscriptionCancel(call: Call): object {
  const subscription = findLive(call)
  const { world, account, params } = call
  const atPeriodEnd = params.accept(subscriptionUpdate).boolean('cancel_at_period_end')
  return world.clock.of(subscription.customer, () => {
    if (atPeriodEnd === true) cancelAtPeriodEnd(world, account, subscription)
    if (atPeriodEnd === false && subscription.cancel_at_period_end) undoCancel(world, account, subscription)
    return subscription
  })
}

export function cancelSubscription(call: Call): object {
  const subscription = findLive(call)
  call.params.accept(subscriptionCancel)
  call.world.clock.of(subscription.customer, () =>
    endSubscription(call.world, call.account, subscription, 'cancellation_requested'),
  )
  return subscription
}

/** Finds a subscription to change it. As with Stripe, an ended subscription can only be read. */
function findLive({ world, account, id }: Call): Subscription {
  const subscription = findOwned(world.subscriptions, 'subscription', account, id)
  if (subscription.status === 'canceled') throw noSuch('subscription', id)
  return subscription
}

export const getInvoice = readOne('invoices', 'invoice')

export function listInvoiceLines({ world, account, id, params }: Call): object {
  params.accept(invoiceLineList)
  const { lines } = findOwned(world.invoices, 'invoice', account, id)
  return page(lines.url, params, lines.data)
}

export const listInvoices = readList('/v1/invoices', 'invoices', invoiceList, {
  subscription: (invoice) => invoice.parent?.subscription_details?.subscription,
  status: (invoice) => invoice.status,
  customer: (invoice) => invoice.customer,
})

export const getInvoicePayment = readOne('invoicePayments', 'invoice_payment')

export function listInvoicePayments({ world, account, params }: Call): object {
  params.accept(invoicePaymentList)
  const payment = params.object('payment')?.only('type', 'payment_intent')
  payment?.oneOf('type', ['payment_intent'])
  const intent = payment?.string('payment_intent')
  const invoice = params.string('invoice')
  const status = params.oneOf('status', ['open', 'paid', 'canceled'])
  const found = world.invoicePayments.list(
    account,
    (each) =>
      (intent === undefined || each.payment.payment_intent === intent) &&
      (invoice === undefined || each.invoice === invoice) &&
      (status === undefined || each.status === status),
  )
  return page('/v1/invoice_payments', params, found)
}
