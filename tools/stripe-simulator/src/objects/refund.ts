import { newId } from '../ids.ts'
import { nulls, type Charge, type Refund } from './wire.ts'

export const refundStatuses = ['pending', 'requires_action', 'succeeded', 'failed', 'canceled'] as const
export type RefundStatus = (typeof refundStatuses)[number]

type NewRefund = {
  created: number
  charge: Charge
  amount: number
  status: RefundStatus
}

export function newRefund({ created, charge, amount, status }: NewRefund): Refund {
  const byCard = charge.payment_method_details?.type === 'card'
  return {
    id: newId(byCard ? 're' : 'pyr'),
    object: 'refund',
    ...nulls('customer_account receipt_number source_transfer_reversal transfer_reversal'),
    amount,
    balance_transaction: newId('txn'),
    charge: charge.id,
    created,
    currency: charge.currency,
    customer: charge.customer,
    destination_details: byCard
      ? {
          card: { type: 'refund', reference_status: 'pending', reference_type: 'acquirer_reference_number' },
          type: 'card',
        }
      : { type: 'us_bank_transfer', us_bank_transfer: { reference: null, reference_status: 'pending' } },
    metadata: {},
    payment_intent: charge.payment_intent,
    payment_method: charge.payment_method,
    reason: 'requested_by_customer',
    status,
    ...(status === 'pending' && { pending_reason: 'processing' }),
  }
}

/** Whether the refund counts in the charge's refunded amount: it is pending or has succeeded. */
export function countsAgainstCharge(refund: Refund): boolean {
  return refund.status !== 'failed' && refund.status !== 'canceled'
}
