import { cancelAtPeriodEnd, undoCancel } from '../flows/cancel-subscription.ts'
import { changeRefund } from '../flows/change-refund.ts'
import { authorize, deauthorize } from '../flows/connect-account.ts'
import {
  closeDispute,
  disputeOutcomes,
  disputeReasons,
  escalateDispute,
  openDispute,
} from '../flows/dispute-charge.ts'
import { expireSession } from '../flows/expire-session.ts'
import { failInvoice } from '../flows/fail-invoice.ts'
import { findAnywhere, findLiveSubscription, findPaidCharge } from '../flows/find.ts'
import { failSession, paySession } from '../flows/pay-session.ts'
import { refundCharge } from '../flows/refund-charge.ts'
import { renewSubscription } from '../flows/renew-subscription.ts'
import { endSubscription } from '../flows/subscription-status.ts'
import type { Params } from '../http/params.ts'
import { connectedAccount } from '../objects/account.ts'
import { refundStatuses } from '../objects/refund.ts'
import type { World } from '../world/world.ts'
import { upsertPrice } from './upsert-price.ts'

export type Action = (world: World, params: Params) => object

/** What customers, banks, vendors and time do. Each answers with the object that it changed. */
export const actions: Record<string, Action> = {
  prices: upsertPrice,
  pay: (world, params) => {
    params.only('session', 'method', 'email', 'discount')
    return paySession(world, params.required('session'), {
      method: params.oneOf('method', ['card', 'delayed']) ?? 'card',
      email: params.string('email') ?? 'buyer@example.com',
      discount: params.integer('discount') ?? 0,
    })
  },
  fail: (world, params) => {
    params.only('session', 'email')
    const email = params.string('email') ?? 'buyer@example.com'
    return failSession(world, params.required('session'), { method: 'card', email })
  },
  expire: (world, params) => {
    const id = params.only('session').required('session')
    const { account, object } = findAnywhere(world.sessions, 'checkout.session', id)
    return expireSession(world, account, object)
  },
  refund,
  'refund-status': (world, params) => {
    params.only('refund', 'status', 'failure_reason')
    const status = params.oneOf('status', refundStatuses)
    if (status === undefined) throw params.missing('status')
    const reason = params.string('failure_reason') ?? 'unknown'
    return changeRefund(world, params.required('refund'), status, reason)
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
  renew: (world, params) => renewSubscription(world, params.only('subscription').required('subscription')),
  'fail-invoice': (world, params) => {
    params.only('subscription', 'attempt', 'manual', 'final', 'after_final')
    return failInvoice(world, params.required('subscription'), {
      attempt: params.integer('attempt', 1),
      manual: params.boolean('manual') ?? false,
      final: params.boolean('final'),
      afterFinal: params.oneOf('after_final', ['cancel', 'unpaid', 'leave']) ?? 'leave',
    })
  },
  cancel,
  deauthorize: (world, params) => {
    const account = params.only('account').required('account')
    deauthorize(world, account)
    return connectedAccount(account)
  },
  authorize: (world, params) => {
    const account = params.only('account').required('account')
    authorize(world, account)
    return connectedAccount(account)
  },
}

const refundReasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const

/** As the vendor would in the dashboard: the platform's fee stays unless asked for. */
function refund(world: World, params: Params): object {
  params.only('charge', 'amount', 'status', 'reason', 'metadata', 'refund_application_fee', 'force')
  const { account, object: charge } = findPaidCharge(world, params.required('charge'))
  return refundCharge(world, account, charge, {
    amount: params.integer('amount', 1),
    status: params.oneOf('status', refundStatuses) ?? 'succeeded',
    reason: params.oneOf('reason', refundReasons) ?? 'requested_by_customer',
    metadata: params.metadata('metadata'),
    refundApplicationFee: params.boolean('refund_application_fee') ?? false,
    despiteDispute: params.boolean('force') ?? false,
  })
}

const endReasons = ['cancellation_requested', 'payment_failed', 'payment_disputed'] as const

function cancel(world: World, params: Params): object {
  params.only('subscription', 'when', 'reason')
  const when = params.oneOf('when', ['now', 'period_end', 'undo']) ?? 'now'
  const reason = params.oneOf('reason', endReasons) ?? 'cancellation_requested'
  const { account, object } = findLiveSubscription(world, params.required('subscription'))
  if (when === 'now') endSubscription(world, account, object, reason)
  else if (when === 'period_end') cancelAtPeriodEnd(world, account, object)
  else undoCancel(world, account, object)
  return object
}
