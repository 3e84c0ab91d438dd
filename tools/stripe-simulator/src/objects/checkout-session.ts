import type { CheckoutSession, Metadata, Mode } from './wire.ts'

export type NewCheckoutSession = {
  id: string
  created: number
  mode: Mode
  amount: number
  currency: string
  url: string
  successUrl: string
  cancelUrl: string | null
  expiresAt: number
  clientReferenceId: string | null
  customerEmail: string | null
  metadata: Metadata
}

export function newCheckoutSession(wanted: NewCheckoutSession): CheckoutSession {
  const subscribing = wanted.mode === 'subscription'
  return {
    id: wanted.id,
    object: 'checkout.session',
    adaptive_pricing: { enabled: false },
    after_expiration: null,
    allow_promotion_codes: null,
    allowed_payment_method_types: null,
    amount_subtotal: wanted.amount,
    amount_total: wanted.amount,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    billing_address_collection: null,
    cancel_url: wanted.cancelUrl,
    client_reference_id: wanted.clientReferenceId,
    client_secret: null,
    collected_information: null,
    consent: null,
    consent_collection: null,
    created: wanted.created,
    currency: wanted.currency,
    currency_conversion: null,
    custom_fields: [],
    custom_text: {
      after_submit: null,
      shipping_address: null,
      submit: null,
      terms_of_service_acceptance: null,
    },
    customer: null,
    customer_account: null,
    customer_creation: subscribing ? 'always' : 'if_required',
    customer_details: null,
    customer_email: wanted.customerEmail,
    discounts: null,
    expires_at: wanted.expiresAt,
    integration_identifier: null,
    invoice: null,
    invoice_creation: subscribing ? null : noInvoice(),
    livemode: false,
    locale: null,
    managed_payments: { enabled: false },
    metadata: wanted.metadata,
    mode: wanted.mode,
    origin_context: null,
    payment_intent: null,
    payment_link: null,
    payment_method_collection: subscribing ? 'always' : 'if_required',
    payment_method_configuration_details: null,
    payment_method_options: {},
    payment_method_types: ['card', 'us_bank_account'],
    payment_status: 'unpaid',
    permissions: null,
    phone_number_collection: { enabled: false },
    recovered_from: null,
    saved_payment_method_options: null,
    setup_intent: null,
    shipping_address_collection: null,
    shipping_cost: null,
    shipping_options: [],
    status: 'open',
    submit_type: null,
    subscription: null,
    success_url: wanted.successUrl,
    total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
    ui_mode: 'hosted_page',
    url: wanted.url,
    wallet_options: null,
  }
}

export function customerDetails(email: string): CheckoutSession['customer_details'] {
  return {
    address: null,
    business_name: null,
    email,
    individual_name: null,
    name: null,
    phone: null,
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
