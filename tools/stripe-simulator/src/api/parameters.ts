import type Stripe from 'stripe'
import type { Parameters } from '../http/params.ts'

export const feeList: Parameters<Stripe.ApplicationFeeListParams> = {
  charge: true,
  created: true,
  ending_before: false,
  limit: true,
  starting_after: true,
}

export const feeRefundCreate: Parameters<Stripe.ApplicationFeeCreateRefundParams> = {
  amount: true,
  metadata: true,
}

export const feeRefundList: Parameters<Stripe.ApplicationFeeListRefundsParams> = {
  ending_before: false,
  limit: true,
  starting_after: true,
}

export const chargeList: Parameters<Stripe.ChargeListParams> = {
  created: true,
  customer: false,
  ending_before: false,
  limit: true,
  payment_intent: false,
  starting_after: true,
  transfer_group: false,
}

export const disputeList: Parameters<Stripe.DisputeListParams> = {
  charge: true,
  created: true,
  ending_before: false,
  limit: true,
  payment_intent: false,
  starting_after: true,
}

export const eventList: Parameters<Stripe.EventListParams> = {
  created: true,
  delivery_success: false,
  ending_before: false,
  limit: true,
  starting_after: true,
  type: false,
  types: true,
}

export const invoiceLineList: Parameters<Stripe.InvoiceListLineItemsParams> = {
  ending_before: false,
  limit: true,
  starting_after: true,
}

export const invoicePaymentList: Parameters<Stripe.InvoicePaymentListParams> = {
  created: true,
  ending_before: false,
  invoice: true,
  limit: true,
  payment: true,
  starting_after: true,
  status: false,
}

export const intentRetrieve: Parameters<Stripe.PaymentIntentRetrieveParams> = {
  client_secret: false,
}

export const refundList: Parameters<Stripe.RefundListParams> = {
  charge: true,
  created: true,
  ending_before: false,
  limit: true,
  payment_intent: false,
  starting_after: true,
}

export const subscriptionItemList: Parameters<Stripe.SubscriptionItemListParams> = {
  ending_before: false,
  limit: true,
  starting_after: true,
  subscription: true,
}

export const endpointCreate: Parameters<Stripe.WebhookEndpointCreateParams> = {
  api_version: true,
  connect: true,
  description: true,
  enabled_events: true,
  metadata: true,
  url: true,
}

/** The parameters of a call that takes none, such as reading one object. */
export const noParameters: Record<string, boolean> = {}
