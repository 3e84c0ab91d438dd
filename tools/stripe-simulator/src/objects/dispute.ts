import { newId } from '../ids.ts'
import { nulls, type BalanceTransaction, type Charge, type Dispute } from './wire.ts'

const answerWithinSeconds = 9 * 24 * 3600
const disputeFee = 1500

export type DisputeKind = 'chargeback' | 'inquiry'

type NewDispute = {
  created: number
  charge: Charge
  kind: DisputeKind
  amount: number
}

/** Only a chargeback moves money; an inquiry can still be refunded. */
export function newDispute({ created, charge, kind, amount }: NewDispute): Dispute {
  const id = newId('du')
  const chargeback = kind === 'chargeback'
  return {
    id,
    object: 'dispute',
    amount,
    balance_transactions: chargeback ? [withdrawal(id, charge, amount, created)] : [],
    charge: charge.id,
    created,
    currency: charge.currency,
    enhanced_eligibility_types: [],
    evidence: noEvidence(),
    evidence_details: {
      due_by: created + answerWithinSeconds,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: 'not_submitted',
    },
    intended_submission_method: null,
    is_charge_refundable: !chargeback,
    livemode: false,
    metadata: {},
    network_reason_code: '10.4',
    payment_intent: charge.payment_intent,
    payment_method_details: {
      card: { brand: 'visa', case_type: kind, network: 'visa', network_reason_code: '10.4' },
      type: 'card',
    },
    reason: 'fraudulent',
    status: chargeback ? 'needs_response' : 'warning_needs_response',
  }
}

export function withdrawal(
  disputeId: string,
  charge: Charge,
  amount: number,
  created: number,
): BalanceTransaction {
  const { currency } = charge
  return {
    id: newId('txn'),
    object: 'balance_transaction',
    amount: -amount,
    available_on: created,
    balance_type: 'payments',
    created,
    currency,
    description: `Chargeback withdrawal for ${charge.id}`,
    exchange_rate: null,
    fee: disputeFee,
    fee_details: [
      { amount: disputeFee, application: null, currency, description: 'Dispute fee', type: 'stripe_fee' },
    ],
    net: -amount - disputeFee,
    reporting_category: 'dispute',
    source: disputeId,
    status: 'available',
    type: 'adjustment',
  }
}

function noEvidence(): Dispute['evidence'] {
  return {
    ...nulls('access_activity_log billing_address cancellation_policy cancellation_policy_disclosure'),
    ...nulls('cancellation_rebuttal customer_communication customer_email_address customer_name'),
    ...nulls('customer_purchase_ip customer_signature duplicate_charge_documentation'),
    ...nulls('duplicate_charge_explanation duplicate_charge_id product_description receipt refund_policy'),
    ...nulls('refund_policy_disclosure refund_refusal_explanation service_date service_documentation'),
    ...nulls('shipping_address shipping_carrier shipping_date shipping_documentation'),
    ...nulls('shipping_tracking_number uncategorized_file uncategorized_text'),
    enhanced_evidence: {},
  }
}
