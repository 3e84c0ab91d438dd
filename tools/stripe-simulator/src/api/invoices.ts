import { findOwned } from '../flows/find.ts'
import type { Call } from './call.ts'
import { invoiceLineList, invoiceList, invoicePaymentList, noParameters } from './parameters.ts'
import { page } from './page.ts'

export function getInvoice({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.invoices, 'invoice', account, id)
}

export function listInvoiceLines({ world, account, id, params }: Call): object {
  params.accept(invoiceLineList)
  const { lines } = findOwned(world.invoices, 'invoice', account, id)
  return page(lines.url, params, lines.data)
}

export function listInvoices({ world, account, params }: Call): object {
  params.accept(invoiceList)
  const subscription = params.string('subscription')
  const status = params.string('status')
  const customer = params.string('customer')
  const found = world.invoices.list(
    account,
    (invoice) =>
      (subscription === undefined || invoice.parent?.subscription_details?.subscription === subscription) &&
      (status === undefined || invoice.status === status) &&
      (customer === undefined || invoice.customer === customer),
  )
  return page('/v1/invoices', params, found)
}

export function getInvoicePayment({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.invoicePayments, 'invoice_payment', account, id)
}

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
