import { impossible } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newDispute, withdrawal, type DisputeKind } from '../objects/dispute.ts'
import type { Charge, Dispute } from '../objects/wire.ts'
import { add, need, ownerOf, type World } from '../world.ts'

export const disputeOutcomes = ['won', 'lost', 'warning_closed'] as const

type Disputing = {
  kind: DisputeKind
  amount?: number | undefined
  /** Allows a dispute of a fully refunded charge, for tests in which the events of both cross. */
  force: boolean
}

export function openDispute(world: World, charge: Charge, { kind, amount, force }: Disputing): Dispute {
  if (charge.refunded && !force) throw impossible(`${charge.id} was refunded in full`)
  const open = [...world.disputes.values()].find((each) => each.charge === charge.id && isOpen(each))
  if (open !== undefined) throw impossible(`${charge.id} is disputed already`)
  const dispute = newDispute({ created: world.now, charge, kind, amount: amount ?? charge.amount })
  charge.disputed = true
  add(world, world.disputes, ownerOf(world, charge), dispute)
  emit(world, 'charge.dispute.created', dispute)
  return dispute
}

/** Turns an inquiry into a chargeback. */
export function escalateDispute(world: World, dispute: Dispute): Dispute {
  refuseUnlessOpen(dispute)
  if (!isInquiry(dispute)) throw impossible(`${dispute.id} is a chargeback already`)
  const charge = need(world.charges, 'charge', dispute.charge)
  const { status, is_charge_refundable, balance_transactions } = dispute
  dispute.status = 'needs_response'
  dispute.is_charge_refundable = false
  dispute.balance_transactions = [withdrawal(dispute.id, charge, dispute.amount, world.now)]
  if (dispute.payment_method_details?.card) dispute.payment_method_details.card.case_type = 'chargeback'
  const previous = { status, is_charge_refundable, balance_transactions }
  emit(world, 'charge.dispute.updated', dispute, previous)
  return dispute
}

export function closeDispute(
  world: World,
  dispute: Dispute,
  result: (typeof disputeOutcomes)[number],
): Dispute {
  refuseUnlessOpen(dispute)
  if (isInquiry(dispute) !== (result === 'warning_closed')) {
    throw impossible(`a dispute that is ${dispute.status} cannot end as ${result}`)
  }
  const previous = { status: dispute.status }
  dispute.status = result
  emit(world, 'charge.dispute.closed', dispute, previous)
  return dispute
}

function isOpen(dispute: Dispute): boolean {
  return !disputeOutcomes.some((each) => each === dispute.status)
}

function isInquiry(dispute: Dispute): boolean {
  return dispute.status.startsWith('warning_')
}

function refuseUnlessOpen(dispute: Dispute): void {
  if (!isOpen(dispute)) throw impossible(`${dispute.id} was closed as ${dispute.status}`)
}
