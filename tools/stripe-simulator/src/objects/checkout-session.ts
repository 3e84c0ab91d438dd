import { nulls, type CheckoutSession, type Metadata, type Mode } from './wire.ts'

export type NewCheckoutSession = {
  id: string
  created: number
  mode: Mode
  amount: number
  currency: string
  url: string
  successUrl: string
  cancelUrl: string | null
  clientReferenceId: string | null
  metadata: Metadata
}

export function newCheckoutSession(wanted: NewCheckoutSession): CheckoutSession {
  const subscribing = wanted.mode === 'subscription'
  return {
    id: wanted.id,
    object: 'checkout.session',
    ...nulls('after_expiration allow_promotion_codes allowed_payment_method_types'),
    ...nulls('billing_address_collection client_secret collected_information consent consent_collection'),
    ...nulls('currency_conversion customer_account discounts integration_identifier locale origin_context'),
    ...nulls('payment_link payment_method_configuration_details permissions recovered_from'),
    ...nulls('saved_payment_method_options setup_intent shipping_address_collection shipping_cost'),
    ...nulls('submit_type wallet_options'),
    adaptive_pricing: { enabled: false },
    amount_subtotal: wanted.amount,
    amount_total: wanted.amount,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    cancel_url: wanted.cancelUrl,
    client_reference_id: wanted.clientReferenceId,
    created: wanted.created,
    currency: wanted.currency,
    custom_fields: [],
    custom_text: {
      after_submit: null,
      shipping_address: null,
      submit: null,
      terms_of_service_acceptance: null,
    },
    customer: null,
    customer_creation: subscribing ? 'always' : 'if_required',
    customer_details: null,
    customer_email: null,
    expires_at: wanted.created + 24 * 3600,
    invoice: null,
    invoice_creation: subscribing ? null : noInvoice(),
    livemode: false,
    managed_payments: { enabled: false },
    metadata: wanted.metadata,
    mode: wanted.mode,
    payment_intent: null,
    payment_method_collection: subscribing ? 'always' : 'if_required',
    payment_method_options: {},
    payment_method_types: ['card', 'us_bank_account'],
    payment_status: 'unpaid',
    phone_number_collection: { enabled: false },
    shipping_options: [],
    status: 'open',
    subscription: null,
    success_url: wanted.successUrl,
    total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
    ui_mode: 'hosted_page',
    url: wanted.url,
  }
}

export function customerDetails(email: string): CheckoutSession['customer_details'] {
  return {
    ...nulls('address business_name individual_name name phone'),
    email,
    tax_exempt: 'none',
    tax_ids: [],
  }
}

function noInvoice(): CheckoutSession['invoice_creation'] {
  return {
    enabled: false,
    invoice_data: {
      account_tax_ids: null,
      custom_fields: null,
      description: null,
      footer: null,
      issuer: null,
      metadata: {},
      rendering_options: null,
    },
  }
}
