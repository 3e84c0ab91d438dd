import { impossible } from '../http/stripe-error.ts'
import {
  newApplicationFee,
  newCharge,
  newPaymentIntent,
  outcome,
  type NewPaymentIntent,
} from '../objects/charge.ts'
import type { Charge, PaymentIntent, PaymentMethod } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'

export type Payer = { method: PaymentMethod; email: string }
export type PaymentOutcome = 'succeeded' | 'failed'

export function openIntent(
  world: World,
  account: Owner,
  wanted: Omit<NewPaymentIntent, 'created'>,
): PaymentIntent {
  const intent = newPaymentIntent({ ...wanted, created: world.clock.now() })
  world.paymentIntents.add(account, intent)
  world.emitter.emit(account, 'payment_intent.created', intent)
  return intent
}

/** Submits the customer's payment method. A card payment is decided at once, a bank debit stays pending. */
export function submitPayment(world: World, account: Owner, intent: PaymentIntent, payer: Payer): Charge {
  intent.payment_method = newId('pm')
  intent.status = 'processing'
  const created = world.clock.now()
  const charge = world.charges.add(
    account,
    newCharge({ created, intent, method: payer.method, email: payer.email }),
  )
  intent.latest_charge = charge.id
  if (payer.method === 'delayed') {
    world.emitter.emit(account, 'charge.pending', charge)
    world.emitter.emit(account, 'payment_intent.processing', intent)
  }
  return charge
}

export function settlePayment(
  world: World,
  account: Owner,
  intent: PaymentIntent,
  result: PaymentOutcome,
): void {
  const charge = world.charges.find(account, intent.latest_charge ?? '')
  if (charge === undefined) throw new Error(`payment intent ${intent.id} has no charge to settle`)
  if (result === 'succeeded') succeed(world, account, intent, charge)
  else fail(world, account, intent, charge)
}

function succeed(world: World, account: Owner, intent: PaymentIntent, charge: Charge): void {
  charge.status = 'succeeded'
  charge.paid = true
  charge.amount_captured = charge.amount
  charge.outcome = outcome('authorized')
  intent.status = 'succeeded'
  intent.amount_received = intent.amount
  intent.last_payment_error = null
  captureCharge(world, account, charge)
  world.emitter.emit(account, 'charge.succeeded', charge)
  world.emitter.emit(account, 'payment_intent.succeeded', intent)
}

function fail(world: World, account: Owner, intent: PaymentIntent, charge: Charge): void {
  const byCard = charge.payment_method_details?.type === 'card'
  const code = byCard ? 'card_declined' : 'payment_method_provider_decline'
  const message = byCard ? 'Your card was declined.' : 'The bank refused the debit.'
  charge.status = 'failed'
  charge.captured = false
  charge.failure_code = code
  charge.failure_message = message
  charge.outcome = outcome('issuer_declined')
  intent.status = 'requires_payment_method'
  intent.payment_method = null
  intent.last_payment_error = {
    charge: charge.id,
    code,
    decline_code: 'generic_decline',
    message,
    type: 'card_error',
  }
  world.emitter.emit(account, 'charge.failed', charge)
  world.emitter.emit(account, 'payment_intent.payment_failed', intent)
}

/** How long an asynchronous capture takes. At Stripe it is up to an hour. */
const captureSeconds = 3600

/** Captures a charge. Its balance transaction and application fee follow now or later. */
function captureCharge(world: World, account: Owner, charge: Charge): void {
  const now = world.clock.now()
  if (world.settings.of(account).capture === 'immediate') bookCharge(world, account, charge)
  else world.openCaptures.add(account, { id: charge.id, created: now, due_at: now + captureSeconds })
}

/** Ends an asynchronous capture: creates the balance transaction and the application fee. */
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
  // The fee of a direct charge and its event belong to the platform.
  const fee = world.applicationFees.add(null, newApplicationFee(world.clock.now(), account, charge, amount))
  charge.application_fee = fee.id
  world.emitter.emit(null, 'application_fee.created', fee)
}
