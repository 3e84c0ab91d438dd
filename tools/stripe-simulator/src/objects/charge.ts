import { newId, platformApplication } from '../ids.ts'
import {
  nulls,
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
    ...nulls('on_behalf_of receipt_email receipt_number receipt_url review shipping source source_transfer'),
    ...nulls('statement_descriptor statement_descriptor_suffix transfer_data transfer_group'),
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
    outcome: null,
    paid: false,
    payment_intent: intent.id,
    payment_method: intent.payment_method,
    payment_method_details: method === 'card' ? simulatedCard() : simulatedBankAccount(),
    refunded: false,
    status: 'pending',
  }
}

/** The outcome of a charge that was paid. */
export const authorized: Charge['outcome'] = {
  ...nulls('advice_code network_advice_code network_decline_code reason'),
  network_status: 'approved_by_network',
  risk_level: 'normal',
  seller_message: 'Payment complete.',
  type: 'authorized',
}

function simulatedCard(): Charge['payment_method_details'] {
  return {
    card: {
      ...nulls('amount_authorized authorization_code electronic_commerce_indicator fingerprint installments'),
      ...nulls('mandate network_transaction_id three_d_secure transaction_link_id wallet'),
      brand: 'visa',
      checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' },
      country: 'US',
      exp_month: 12,
      exp_year: 2030,
      extended_authorization: { status: 'disabled' },
      funding: 'credit',
      incremental_authorization: { status: 'unavailable' },
      last4: '4242',
      multicapture: { status: 'unavailable' },
      network: 'visa',
      network_token: { used: false },
      overcapture: { maximum_amount_capturable: 0, status: 'unavailable' },
      regulated_status: 'unregulated',
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
  metadata: Metadata
}

export function newPaymentIntent(wanted: NewPaymentIntent): PaymentIntent {
  return {
    id: newId('pi'),
    object: 'payment_intent',
    ...nulls('allowed_payment_method_types automatic_payment_methods cancellation_reason client_secret'),
    ...nulls('customer_account excluded_payment_method_types next_action on_behalf_of'),
    ...nulls('payment_method_configuration_details payment_record processing receipt_email review'),
    ...nulls('setup_future_usage shipping source statement_descriptor statement_descriptor_suffix'),
    ...nulls('transfer_data transfer_group'),
    amount: wanted.amount,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: 0,
    application: platformApplication,
    application_fee_amount: wanted.applicationFeeAmount,
    canceled_at: null,
    capture_method: 'automatic_async',
    confirmation_method: 'automatic',
    created: wanted.created,
    currency: wanted.currency,
    customer: wanted.customer,
    description: null,
    last_payment_error: null,
    latest_charge: null,
    livemode: false,
    managed_payments: { enabled: false },
    metadata: wanted.metadata,
    payment_method: null,
    payment_method_options: {},
    payment_method_types: ['card', 'us_bank_account'],
    status: 'requires_payment_method',
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
