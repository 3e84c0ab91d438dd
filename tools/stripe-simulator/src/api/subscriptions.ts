import { findOwned } from '../flows/find.ts'
import { page, readOne, type Call } from './call.ts'
import { invoiceLineList, invoicePaymentList, subscriptionItemList } from './parameters.ts'

export const getSubscription = readOne('subscriptions', 'subscription')

export function listSubscriptionItems({ world, account, params }: Call): object {
  const subscription = params.accept(subscriptionItemList).required('subscription')
  const { items } = findOwned(world.subscriptions, 'subscription', account, subscription)
  return page(items.url, params, items.data)
}

export const getInvoice = readOne('invoices', 'invoice')

export function listInvoiceLines({ world, account, id, params }: Call): object {
  params.accept(invoiceLineList)
  const { lines } = findOwned(world.invoices, 'invoice', account, id)
  return page(lines.url, params, lines.data)
}

export const getInvoicePayment = readOne('invoicePayments', 'invoice_payment')

export function listInvoicePayments({ world, account, params }: Call): object {
  params.accept(invoicePaymentList)
  const payment = params.object('payment')?.only('type', 'payment_intent')
  payment?.oneOf('type', ['payment_intent'])
  const intent = payment?.string('payment_intent')
  const invoice = params.string('invoice')
  const found = world.invoicePayments.list(
    account,
    (each) =>
      (intent === undefined || each.payment.payment_intent === intent) &&
      (invoice === undefined || each.invoice === invoice),
  )
  return page('/v1/invoice_payments', params, found)
}
