import { newId, platformApplication } from '../world/ids.ts'
import type { Metadata, PaymentIntent } from './wire.ts'

export type NewPaymentIntent = {
  created: number
  amount: number
  currency: string
  applicationFeeAmount: number | null
  customer: string | null
  description: string | null
  metadata: Metadata
}

export function newPaymentIntent(wanted: NewPaymentIntent): PaymentIntent {
  return {
    id: newId('pi'),
    object: 'payment_intent',
    allowed_payment_method_types: null,
    amount: wanted.amount,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: 0,
    application: platformApplication,
    application_fee_amount: wanted.applicationFeeAmount,
    automatic_payment_methods: null,
    canceled_at: null,
    cancellation_reason: null,
    capture_method: 'automatic_async',
    client_secret: null,
    confirmation_method: 'automatic',
    created: wanted.created,
    currency: wanted.currency,
    customer: wanted.customer,
    customer_account: null,
    description: wanted.description,
    excluded_payment_method_types: null,
    last_payment_error: null,
    latest_charge: null,
    livemode: false,
    managed_payments: { enabled: false },
    metadata: wanted.metadata,
    next_action: null,
    on_behalf_of: null,
    payment_method: null,
    payment_method_configuration_details: null,
    payment_method_options: {},
    payment_method_types: ['card', 'us_bank_account'],
    payment_record: null,
    processing: null,
    receipt_email: null,
    review: null,
    setup_future_usage: null,
    shipping: null,
    source: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: 'requires_payment_method',
    transfer_data: null,
    transfer_group: null,
  }
}
