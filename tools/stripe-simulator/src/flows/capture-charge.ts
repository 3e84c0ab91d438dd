import { impossible } from '../http/stripe-error.ts'
import { newApplicationFee } from '../objects/application-fee.ts'
import type { Charge } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'

/** The money is with the vendor, and its entries in the balances follow now or later. */
export function captureCharge(world: World, account: Owner, charge: Charge): void {
  const { capture, captureSeconds } = world.settings.of(account)
  const now = world.clock.now()
  if (capture === 'immediate') bookCharge(world, account, charge)
  else world.openCaptures.add(account, { id: charge.id, created: now, due_at: now + captureSeconds })
}

/** The second half of an asynchronous capture: only now there is an application fee. */
export function finishCapture(world: World, account: Owner, chargeId: string): Charge {
  const charge = world.charges.find(account, chargeId)
  if (charge === undefined || world.openCaptures.find(account, chargeId) === undefined) {
    throw impossible(`${chargeId} has no capture under way`)
  }
  world.openCaptures.forget(account, chargeId)
  const { balance_transaction, application_fee } = charge
  bookCharge(world, account, charge)
  world.emitter.emit(account, 'charge.updated', charge, {
    balance_transaction,
    ...(charge.application_fee !== null && { application_fee }),
  })
  return charge
}

function bookCharge(world: World, account: Owner, charge: Charge): void {
  charge.balance_transaction = newId('txn')
  const amount = charge.application_fee_amount ?? 0
  if (account === null || amount === 0) return
  // On a direct charge the fee is the platform's own object, and so is its event.
  const fee = world.applicationFees.add(null, newApplicationFee(world.clock.now(), account, charge, amount))
  charge.application_fee = fee.id
  world.emitter.emit(null, 'application_fee.created', fee)
}
