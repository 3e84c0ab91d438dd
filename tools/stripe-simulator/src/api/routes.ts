import { getAccount, getCurrentAccount } from './accounts.ts'
import type { Route } from './call.ts'
import {
  createCheckoutSession,
  expireCheckoutSession,
  getCheckoutSession,
  listCheckoutLines,
  listCheckoutSessions,
} from './checkout-sessions.ts'
import { eventHandlers } from './events.ts'
import {
  createFeeRefund,
  createRefund,
  getApplicationFee,
  getCharge,
  getDispute,
  getPaymentIntent,
  getRefund,
  listApplicationFees,
  listCharges,
  listDisputes,
  listFeeRefunds,
  listPaymentIntents,
  listRefunds,
} from './payments.ts'
import { createPrice, getPrice, listPrices } from './prices.ts'
import {
  cancelSubscription,
  getInvoice,
  getInvoicePayment,
  getSubscription,
  listInvoiceLines,
  listInvoicePayments,
  listInvoices,
  listSubscriptionItems,
  listSubscriptions,
  updateSubscriptionCancel,
} from './subscriptions.ts'
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  listWebhookEndpoints,
  updateWebhookEndpoint,
} from './webhook-endpoints.ts'

/** The routes of Stripe's API that the simulator supports. */
export function apiRoutes(undelivered: (eventId: string) => boolean): Route[] {
  const { getEvent, listEvents } = eventHandlers(undelivered)
  return [
    ['GET', '/v1/account', getCurrentAccount],
    ['GET', '/v1/accounts/:id', getAccount],
    ['GET', '/v1/application_fees', listApplicationFees],
    ['GET', '/v1/application_fees/:id', getApplicationFee],
    ['GET', '/v1/application_fees/:id/refunds', listFeeRefunds],
    ['POST', '/v1/application_fees/:id/refunds', createFeeRefund],
    ['GET', '/v1/charges', listCharges],
    ['GET', '/v1/charges/:id', getCharge],
    ['GET', '/v1/checkout/sessions', listCheckoutSessions],
    ['POST', '/v1/checkout/sessions', createCheckoutSession],
    ['GET', '/v1/checkout/sessions/:id', getCheckoutSession],
    ['POST', '/v1/checkout/sessions/:id/expire', expireCheckoutSession],
    ['GET', '/v1/checkout/sessions/:id/line_items', listCheckoutLines],
    ['GET', '/v1/disputes', listDisputes],
    ['GET', '/v1/disputes/:id', getDispute],
    ['GET', '/v1/events', listEvents],
    ['GET', '/v1/events/:id', getEvent],
    ['GET', '/v1/invoice_payments', listInvoicePayments],
    ['GET', '/v1/invoice_payments/:id', getInvoicePayment],
    ['GET', '/v1/invoices', listInvoices],
    ['GET', '/v1/invoices/:id', getInvoice],
    ['GET', '/v1/invoices/:id/lines', listInvoiceLines],
    ['GET', '/v1/payment_intents', listPaymentIntents],
    ['GET', '/v1/payment_intents/:id', getPaymentIntent],
    ['GET', '/v1/prices', listPrices],
    ['POST', '/v1/prices', createPrice],
    ['GET', '/v1/prices/:id', getPrice],
    ['GET', '/v1/refunds', listRefunds],
    ['POST', '/v1/refunds', createRefund],
    ['GET', '/v1/refunds/:id', getRefund],
    ['GET', '/v1/subscription_items', listSubscriptionItems],
    ['GET', '/v1/subscriptions', listSubscriptions],
    ['GET', '/v1/subscriptions/:id', getSubscription],
    ['POST', '/v1/subscriptions/:id', updateSubscriptionCancel],
    ['DELETE', '/v1/subscriptions/:id', cancelSubscription],
    ['GET', '/v1/webhook_endpoints', listWebhookEndpoints],
    ['POST', '/v1/webhook_endpoints', createWebhookEndpoint],
    ['GET', '/v1/webhook_endpoints/:id', getWebhookEndpoint],
    ['POST', '/v1/webhook_endpoints/:id', updateWebhookEndpoint],
    ['DELETE', '/v1/webhook_endpoints/:id', deleteWebhookEndpoint],
  ]
}
