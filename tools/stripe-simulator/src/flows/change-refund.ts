import { impossible } from '../http/stripe-error.ts'
import type { RefundStatus } from '../objects/refund.ts'
import type { Refund } from '../objects/wire.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { findAnywhere, findOwned } from './find.ts'
import { recountRefunds } from './refund-charge.ts'

/** The bank decides on a pending refund, or sends a refund back days after it had succeeded. */
export function changeRefund(
  world: World,
  refundId: string,
  status: RefundStatus,
  failureReason: string,
): Refund {
  const { account, object: refund } = findAnywhere(world.refunds, 'refund', refundId)
  if (refund.status === status) throw impossible(`${refundId} is ${status} already`)
  if (refund.status === 'failed' || refund.status === 'canceled') {
    throw impossible(`${refundId} is ${refund.status}, which is its end`)
  }
  const previous = { status: refund.status }
  refund.status = status
  if (status !== 'pending') delete refund.pending_reason
  if (status === 'failed') {
    refund.failure_reason = failureReason
    refund.failure_balance_transaction = newId('txn')
  }
  world.emitter.emit(account, 'refund.updated', refund, previous)
  world.emitter.emit(account, 'charge.refund.updated', refund, previous)
  if (status === 'failed') world.emitter.emit(account, 'refund.failed', refund, previous)
  recountRefunds(world, account, findOwned(world.charges, 'charge', account, refund.charge ?? ''))
  return refund
}
