import { getAccount } from './accounts.ts'
import type { Route } from './call.ts'
import { createCheckoutSession, getCheckoutSession } from './checkout-sessions.ts'
import { getEvent, listEvents } from './events.ts'
import {
  createFeeRefund,
  getCharge,
  getDispute,
  getPaymentIntent,
  getRefund,
  listApplicationFees,
  listCharges,
  listDisputes,
  listFeeRefunds,
  listRefunds,
} from './payments.ts'
import {
  getInvoice,
  getInvoicePayment,
  getSubscription,
  listInvoiceLines,
  listInvoicePayments,
  listSubscriptionItems,
} from './subscriptions.ts'
import { createWebhookEndpoint, deleteWebhookEndpoint } from './webhook-endpoints.ts'

/** The routes of Stripe's API that the simulator supports. */
export const apiRoutes: Route[] = [
  ['GET', '/v1/accounts/:id', getAccount],
  ['GET', '/v1/application_fees', listApplicationFees],
  ['GET', '/v1/application_fees/:id/refunds', listFeeRefunds],
  ['POST', '/v1/application_fees/:id/refunds', createFeeRefund],
  ['GET', '/v1/charges', listCharges],
  ['GET', '/v1/charges/:id', getCharge],
  ['POST', '/v1/checkout/sessions', createCheckoutSession],
  ['GET', '/v1/checkout/sessions/:id', getCheckoutSession],
  ['GET', '/v1/disputes', listDisputes],
  ['GET', '/v1/disputes/:id', getDispute],
  ['GET', '/v1/events', listEvents],
  ['GET', '/v1/events/:id', getEvent],
  ['GET', '/v1/invoice_payments', listInvoicePayments],
  ['GET', '/v1/invoice_payments/:id', getInvoicePayment],
  ['GET', '/v1/invoices/:id', getInvoice],
  ['GET', '/v1/invoices/:id/lines', listInvoiceLines],
  ['GET', '/v1/payment_intents/:id', getPaymentIntent],
  ['GET', '/v1/refunds', listRefunds],
  ['GET', '/v1/refunds/:id', getRefund],
  ['GET', '/v1/subscription_items', listSubscriptionItems],
  ['GET', '/v1/subscriptions/:id', getSubscription],
  ['POST', '/v1/webhook_endpoints', createWebhookEndpoint],
  ['DELETE', '/v1/webhook_endpoints/:id', deleteWebhookEndpoint],
]
