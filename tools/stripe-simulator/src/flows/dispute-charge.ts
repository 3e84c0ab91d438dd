import { impossible } from '../http/stripe-error.ts'
import { newDispute, reinstatement, withdrawal } from '../objects/dispute.ts'
import type { DisputeKind } from '../objects/dispute.ts'
import type { Dispute } from '../objects/wire.ts'
import type { Stored } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { findAnywhere, findOwned, findPaidCharge } from './find.ts'

export const disputeReasons = [
  'duplicate',
  'fraudulent',
  'general',
  'product_not_received',
  'subscription_canceled',
] as const
export const disputeOutcomes = ['won', 'lost', 'warning_closed'] as const
type DisputeOutcome = (typeof disputeOutcomes)[number]

type Disputing = {
  kind: DisputeKind
  amount: number | undefined
  reason: string
  /** Allows a dispute of a fully refunded charge, for tests in which the events of both cross. */
  despiteRefund: boolean
}

export function openDispute(world: World, chargeId: string, disputing: Disputing): Dispute {
  const { account, object: charge } = findPaidCharge(world, chargeId)
  if (charge.refunded && !disputing.despiteRefund) throw impossible(`${charge.id} was refunded in full`)
  const open = world.disputes.list(account, (each) => each.charge === charge.id && isOpen(each))
  if (open.length > 0) throw impossible(`${charge.id} is disputed already`)
  const { kind, reason } = disputing
  const amount = disputing.amount ?? charge.amount
  const dispute = newDispute({ created: world.clock.now(), charge, kind, amount, reason })
  charge.disputed = true
  world.disputes.add(account, dispute)
  world.emitter.emit(account, 'charge.dispute.created', dispute)
  if (kind === 'chargeback') world.emitter.emit(account, 'charge.dispute.funds_withdrawn', dispute)
  return dispute
}

/** Turns an inquiry into a chargeback. */
export function escalateDispute(world: World, disputeId: string): Dispute {
  const { account, object: dispute } = findOpenDispute(world, disputeId)
  if (!isInquiry(dispute)) throw impossible(`${disputeId} is a chargeback already`)
  const charge = findOwned(world.charges, 'charge', account, dispute.charge)
  const { status, is_charge_refundable, balance_transactions } = dispute
  dispute.status = 'needs_response'
  dispute.is_charge_refundable = false
  dispute.balance_transactions = [withdrawal(dispute.id, charge, dispute.amount, world.clock.now())]
  if (dispute.payment_method_details?.card) dispute.payment_method_details.card.case_type = 'chargeback'
  const previous = { status, is_charge_refundable, balance_transactions }
  world.emitter.emit(account, 'charge.dispute.updated', dispute, previous)
  world.emitter.emit(account, 'charge.dispute.funds_withdrawn', dispute)
  return dispute
}

export function closeDispute(world: World, disputeId: string, result: DisputeOutcome): Dispute {
  const { account, object: dispute } = findOpenDispute(world, disputeId)
  if (isInquiry(dispute) !== (result === 'warning_closed')) {
    throw impossible(`a dispute that is ${dispute.status} cannot end as ${result}`)
  }
  const previous = { status: dispute.status }
  dispute.status = result
  world.emitter.emit(account, 'charge.dispute.closed', dispute, previous)
  if (result === 'won') {
    const charge = findOwned(world.charges, 'charge', account, dispute.charge)
    dispute.balance_transactions.push(reinstatement(dispute.id, charge, dispute.amount, world.clock.now()))
    world.emitter.emit(account, 'charge.dispute.funds_reinstated', dispute)
  }
  return dispute
}

export function isOpen(dispute: Dispute): boolean {
  return !disputeOutcomes.some((each) => each === dispute.status)
}

export function isInquiry(dispute: Dispute): boolean {
  return dispute.status.startsWith('warning_')
}

function findOpenDispute(world: World, id: string): Stored<Dispute> {
  const stored = findAnywhere(world.disputes, 'dispute', id)
  if (!isOpen(stored.object)) throw impossible(`${id} was closed as ${stored.object.status}`)
  return stored
}
