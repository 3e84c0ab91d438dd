import { newId } from '../ids.ts'
import type { Charge, Refund } from './wire.ts'

export const refundStatuses = ['pending', 'requires_action', 'succeeded', 'failed', 'canceled'] as const
export type RefundStatus = (typeof refundStatuses)[number]

type NewRefund = {
  created: number
  charge: Charge
  amount: number
  status: RefundStatus
  reason: Refund['reason']
}

export function newRefund({ created, charge, amount, status, reason }: NewRefund): Refund {
  const byCard = charge.payment_method_details?.type === 'card'
  return {
    id: newId(byCard ? 're' : 'pyr'),
    object: 'refund',
    amount,
    balance_transaction: newId('txn'),
    charge: charge.id,
    created,
    currency: charge.currency,
    customer: charge.customer,
    customer_account: null,
    destination_details: byCard
      ? {
          card: { type: 'refund', reference_status: 'pending', reference_type: 'acquirer_reference_number' },
          type: 'card',
        }
      : { type: 'us_bank_transfer', us_bank_transfer: { reference: null, reference_status: 'pending' } },
    metadata: {},
    payment_intent: charge.payment_intent,
    payment_method: charge.payment_method,
    reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status,
    transfer_reversal: null,
    ...(status === 'pending' && { pending_reason: 'processing' }),
  }
}

/** Whether the refund counts in the charge's refunded amount: it is pending or has succeeded. */
export function countsAgainstCharge(refund: Refund): boolean {
  return refund.status !== 'failed' && refund.status !== 'canceled'
}
