import { newId, platformApplication } from '../ids.ts'
import {
  listOf,
  type ApplicationFee,
  type Charge,
  type FeeRefund,
  type Metadata,
  type PaymentIntent,
  type PaymentMethod,
} from './wire.ts'

type NewCharge = {
  created: number
  intent: PaymentIntent
  method: PaymentMethod
  email: string | null
}

/** A charge that is `pending`: nothing is captured yet. A bank debit's id starts with `py_`. */
export function newCharge({ created, intent, method, email }: NewCharge): Charge {
  return {
    id: newId(method === 'card' ? 'ch' : 'py'),
    object: 'charge',
    amount: intent.amount,
    amount_captured: 0,
    amount_refunded: 0,
    application: platformApplication,
    application_fee: null,
    application_fee_amount: intent.application_fee_amount,
    balance_transaction: null,
    billing_details: { address: null, email, name: null, phone: null, tax_id: null },
    calculated_statement_descriptor: 'SIMULATED VENDOR',
    captured: true,
    created,
    currency: intent.currency,
    customer: intent.customer,
    description: intent.description,
    disputed: false,
    failure_balance_transaction: null,
    failure_code: null,
    failure_message: null,
    fraud_details: {},
    livemode: false,
    metadata: { ...intent.metadata },
    on_behalf_of: null,
    outcome: null,
    paid: false,
    payment_intent: intent.id,
    payment_method: intent.payment_method,
    payment_method_details: method === 'card' ? simulatedCard() : simulatedBankAccount(),
    receipt_email: null,
    receipt_number: null,
    receipt_url: null,
    refunded: false,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: 'pending',
    transfer_data: null,
    transfer_group: null,
  }
}

export function outcome(type: 'authorized' | 'issuer_declined'): Charge['outcome'] {
  const paid = type === 'authorized'
  return {
    advice_code: null,
    network_advice_code: null,
    network_decline_code: null,
    network_status: paid ? 'approved_by_network' : 'declined_by_network',
    reason: paid ? null : 'generic_decline',
    risk_level: 'normal',
    seller_message: paid
      ? 'Payment complete.'
      : 'The bank did not return any further details with this decline.',
    type,
  }
}

function simulatedCard(): Charge['payment_method_details'] {
  return {
    card: {
      amount_authorized: null,
      authorization_code: null,
      brand: 'visa',
      checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' },
      country: 'US',
      electronic_commerce_indicator: null,
      exp_month: 12,
      exp_year: 2030,
      extended_authorization: { status: 'disabled' },
      fingerprint: null,
      funding: 'credit',
      incremental_authorization: { status: 'unavailable' },
      installments: null,
      last4: '4242',
      mandate: null,
      multicapture: { status: 'unavailable' },
      network: 'visa',
      network_token: { used: false },
      network_transaction_id: null,
      overcapture: { maximum_amount_capturable: 0, status: 'unavailable' },
      regulated_status: 'unregulated',
      three_d_secure: null,
      transaction_link_id: null,
      wallet: null,
    },
    type: 'card',
  }
}

function simulatedBankAccount(): Charge['payment_method_details'] {
  return {
    type: 'us_bank_account',
    us_bank_account: {
      account_holder_type: 'individual',
      account_type: 'checking',
      bank_name: 'SIMULATED BANK',
      fingerprint: null,
      last4: '6789',
      payment_reference: null,
      routing_number: '110000000',
    },
  }
}

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

export function newApplicationFee(
  created: number,
  account: string,
  charge: Charge,
  amount: number,
): ApplicationFee {
  const id = newId('fee')
  return {
    id,
    object: 'application_fee',
    account,
    amount,
    amount_refunded: 0,
    application: platformApplication,
    balance_transaction: newId('txn'),
    charge: charge.id,
    created,
    currency: charge.currency,
    fee_source: { charge: charge.id, type: 'charge' },
    livemode: false,
    originating_transaction: null,
    refunded: false,
    refunds: listOf<FeeRefund>(`/v1/application_fees/${id}/refunds`, []),
  }
}

export function newFeeRefund(
  created: number,
  fee: ApplicationFee,
  amount: number,
  metadata: Metadata,
): FeeRefund {
  return {
    id: newId('fr'),
    object: 'fee_refund',
    amount,
    balance_transaction: newId('txn'),
    created,
    currency: fee.currency,
    fee: fee.id,
    metadata,
  }
}
