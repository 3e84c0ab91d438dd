import type Stripe from 'stripe'
import type { Parameters } from '../http/params.ts'

export const feeList: Parameters<Stripe.ApplicationFeeListParams> = {
  charge: true,
  created: true,
  ending_before: true,
  limit: true,
  starting_after: true,
}

export const feeRefundCreate: Parameters<Stripe.ApplicationFeeCreateRefundParams> = {
  amount: true,
  metadata: true,
}

export const feeRefundList: Parameters<Stripe.ApplicationFeeListRefundsParams> = {
  ending_before: true,
  limit: true,
  starting_after: true,
}

export const chargeList: Parameters<Stripe.ChargeListParams> = {
  created: true,
  customer: true,
  ending_before: true,
  limit: true,
  payment_intent: true,
  starting_after: true,
  transfer_group: false,
}

export const disputeList: Parameters<Stripe.DisputeListParams> = {
  charge: true,
  created: true,
  ending_before: true,
  limit: true,
  payment_intent: true,
  starting_after: true,
}

export const eventList: Parameters<Stripe.EventListParams> = {
  created: true,
  delivery_success: true,
  ending_before: true,
  limit: true,
  starting_after: true,
  type: true,
  types: true,
}

export const invoiceList: Parameters<Stripe.InvoiceListParams> = {
  collection_method: false,
  created: true,
  customer: true,
  customer_account: false,
  due_date: false,
  ending_before: true,
  limit: true,
  starting_after: true,
  status: true,
  subscription: true,
}

export const invoiceLineList: Parameters<Stripe.InvoiceListLineItemsParams> = {
  ending_before: true,
  limit: true,
  starting_after: true,
}

export const invoicePaymentList: Parameters<Stripe.InvoicePaymentListParams> = {
  created: true,
  ending_before: true,
  invoice: true,
  limit: true,
  payment: true,
  starting_after: true,
  status: true,
}

export const intentRetrieve: Parameters<Stripe.PaymentIntentRetrieveParams> = {
  client_secret: false,
}

export const intentList: Parameters<Stripe.PaymentIntentListParams> = {
  created: true,
  customer: true,
  customer_account: false,
  ending_before: true,
  limit: true,
  starting_after: true,
}

export const priceCreate: Parameters<Stripe.PriceCreateParams> = {
  active: false,
  billing_scheme: false,
  currency: true,
  currency_options: false,
  custom_unit_amount: false,
  lookup_key: false,
  metadata: true,
  nickname: true,
  product: true,
  product_data: true,
  recurring: true,
  tax_behavior: false,
  tiers: false,
  tiers_mode: false,
  transfer_lookup_key: false,
  transform_quantity: false,
  unit_amount: true,
  unit_amount_decimal: false,
}

export const priceList: Parameters<Stripe.PriceListParams> = {
  active: false,
  created: true,
  currency: false,
  ending_before: true,
  limit: true,
  lookup_keys: false,
  product: false,
  recurring: false,
  starting_after: true,
  type: false,
}

export const refundCreate: Parameters<Stripe.RefundCreateParams> = {
  amount: true,
  charge: true,
  currency: false,
  customer: false,
  instructions_email: false,
  metadata: true,
  origin: false,
  payment_intent: true,
  reason: true,
  refund_application_fee: true,
  reverse_transfer: false,
}

export const refundList: Parameters<Stripe.RefundListParams> = {
  charge: true,
  created: true,
  ending_before: true,
  limit: true,
  payment_intent: true,
  starting_after: true,
}

export const subscriptionList: Parameters<Stripe.SubscriptionListParams> = {
  automatic_tax: false,
  collection_method: false,
  created: true,
  current_period_end: false,
  current_period_start: false,
  customer: true,
  customer_account: false,
  ending_before: true,
  limit: true,
  plan: false,
  price: false,
  starting_after: true,
  status: true,
  test_clock: false,
}

export const subscriptionItemList: Parameters<Stripe.SubscriptionItemListParams> = {
  ending_before: true,
  limit: true,
  starting_after: true,
  subscription: true,
}

export const subscriptionUpdate: Parameters<Stripe.SubscriptionUpdateParams> = {
  add_invoice_items: false,
  application_fee_percent: false,
  automatic_tax: false,
  billing_cycle_anchor: false,
  billing_schedules: false,
  billing_thresholds: false,
  cancel_at: false,
  cancel_at_period_end: true,
  cancellation_details: false,
  collection_method: false,
  days_until_due: false,
  default_payment_method: false,
  default_source: false,
  default_tax_rates: false,
  description: false,
  discounts: false,
  invoice_settings: false,
  items: false,
  metadata: false,
  off_session: false,
  on_behalf_of: false,
  pause_collection: false,
  payment_behavior: false,
  payment_settings: false,
  pending_invoice_item_interval: false,
  proration_behavior: false,
  proration_date: false,
  transfer_data: false,
  trial_end: false,
  trial_from_plan: false,
  trial_settings: false,
}

export const subscriptionCancel: Parameters<Stripe.SubscriptionCancelParams> = {
  cancellation_details: false,
  invoice_now: true,
  prorate: true,
}

export const endpointCreate: Parameters<Stripe.WebhookEndpointCreateParams> = {
  api_version: true,
  connect: true,
  description: true,
  enabled_events: true,
  metadata: true,
  url: true,
}

export const endpointUpdate: Parameters<Stripe.WebhookEndpointUpdateParams> = {
  description: true,
  disabled: true,
  enabled_events: true,
  metadata: true,
  url: true,
}

export const endpointList: Parameters<Stripe.WebhookEndpointListParams> = {
  ending_before: true,
  limit: true,
  starting_after: true,
}

/** The parameters of a call that takes none, such as reading one object. */
export const noParameters: Record<string, boolean> = {}
