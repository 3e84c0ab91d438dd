import { finishCapture } from '../flows/collect-payment.ts'
import {
  closeDispute,
  disputeOutcomes,
  disputeReasons,
  escalateDispute,
  openDispute,
} from '../flows/dispute-charge.ts'
import { findPaidCharge } from '../flows/find.ts'
import { changeRefund, refundCharge } from '../flows/refund-charge.ts'
import type { Params } from '../http/params.ts'
import { refundStatuses } from '../objects/refund.ts'
import type { World } from '../world/world.ts'
import type { Action } from './control.ts'

const refundReasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const

export const chargeActions: Record<string, Action> = {
  capture: (world, params) => {
    const { account, object } = findPaidCharge(world, params.only('charge').required('charge'))
    return finishCapture(world, account, object.id)
  },
  refund,
  'refund-status': (world, params) => {
    params.only('refund', 'status')
    const status = params.oneOf('status', refundStatuses)
    if (status === undefined) throw params.missing('status')
    return changeRefund(world, params.required('refund'), status)
  },
  dispute: (world, params) => {
    params.only('charge', 'kind', 'amount', 'reason', 'force')
    return openDispute(world, params.required('charge'), {
      kind: params.oneOf('kind', ['chargeback', 'inquiry']) ?? 'chargeback',
      amount: params.integer('amount', 1),
      reason: params.oneOf('reason', disputeReasons) ?? 'fraudulent',
      despiteRefund: params.boolean('force') ?? false,
    })
  },
  'escalate-dispute': (world, params) => {
    return escalateDispute(world, params.only('dispute').required('dispute'))
  },
  'close-dispute': (world, params) => {
    const outcome = params.only('dispute', 'outcome').oneOf('outcome', disputeOutcomes)
    if (outcome === undefined) throw params.missing('outcome')
    return closeDispute(world, params.required('dispute'), outcome)
  },
}

/** Refunds as the vendor would in the dashboard. The platform keeps its fee. */
function refund(world: World, params: Params): object {
  params.only('charge', 'amount', 'status', 'reason', 'force')
  const { account, object: charge } = findPaidCharge(world, params.required('charge'))
  return refundCharge(world, account, charge, {
    amount: params.integer('amount', 1),
    status: params.oneOf('status', refundStatuses) ?? 'succeeded',
    reason: params.oneOf('reason', refundReasons) ?? 'requested_by_customer',
    despiteDispute: params.boolean('force') ?? false,
  })
}
