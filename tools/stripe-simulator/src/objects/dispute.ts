import { newId } from '../ids.ts'
import type { BalanceTransaction, Charge, Dispute } from './wire.ts'

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

/** A dispute that is won gives amount and fee back. */
export function reinstatement(
  disputeId: string,
  charge: Charge,
  amount: number,
  created: number,
): BalanceTransaction {
  const { fee_details, ...withdrawn } = withdrawal(disputeId, charge, amount, created)
  return {
    ...withdrawn,
    amount,
    description: `Chargeback reversal for ${charge.id}`,
    fee: -disputeFee,
    fee_details: fee_details.map((detail) => ({ ...detail, amount: -detail.amount })),
    net: amount + disputeFee,
    reporting_category: 'dispute_reversal',
  }
}

function noEvidence(): Dispute['evidence'] {
  return {
    access_activity_log: null,
    billing_address: null,
    cancellation_policy: null,
    cancellation_policy_disclosure: null,
    cancellation_rebuttal: null,
    customer_communication: null,
    customer_email_address: null,
    customer_name: null,
    customer_purchase_ip: null,
    customer_signature: null,
    duplicate_charge_documentation: null,
    duplicate_charge_explanation: null,
    duplicate_charge_id: null,
    product_description: null,
    receipt: null,
    refund_policy: null,
    refund_policy_disclosure: null,
    refund_refusal_explanation: null,
    service_date: null,
    service_documentation: null,
    shipping_address: null,
    shipping_carrier: null,
    shipping_date: null,
    shipping_documentation: null,
    shipping_tracking_number: null,
    uncategorized_file: null,
    uncategorized_text: null,
    enhanced_evidence: {},
  }
}
