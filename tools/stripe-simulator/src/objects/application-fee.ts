import { newId, platformApplication } from '../world/ids.ts'
import { listOf } from './wire.ts'
import type { ApplicationFee, Charge, FeeRefund, Metadata } from './wire.ts'

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
