import { impossible } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newId } from '../ids.ts'
import {
  authorized,
  newApplicationFee,
  newCharge,
  newPaymentIntent,
  type NewPaymentIntent,
} from '../objects/charge.ts'
import type { Charge, PaymentIntent, PaymentMethod } from '../objects/wire.ts'
import { add, need, ownerOf, settingsOf, type Owner, type World } from '../world.ts'

export type Payer = { method: PaymentMethod; email: string }
export type PaymentOutcome = 'succeeded' | 'failed'

export function openIntent(
  world: World,
  account: Owner,
  wanted: Omit<NewPaymentIntent, 'created'>,
): PaymentIntent {
  const intent = newPaymentIntent({ ...wanted, created: world.now })
  add(world, world.paymentIntents, account, intent)
  return intent
}

/** Submits the customer's payment method. A card payment is decided at once, a bank debit stays pending. */
export function submitPayment(world: World, intent: PaymentIntent, { method, email }: Payer): void {
  intent.payment_method = newId('pm')
  intent.status = 'processing'
  const charge = newCharge({ created: world.now, intent, method, email })
  add(world, world.charges, ownerOf(world, intent), charge)
  intent.latest_charge = charge.id
}

export function settlePayment(world: World, intent: PaymentIntent, result: PaymentOutcome): void {
  const charge = need(world.charges, 'charge', intent.latest_charge)
  if (result === 'succeeded') succeed(world, intent, charge)
  else fail(intent, charge)
}

function succeed(world: World, intent: PaymentIntent, charge: Charge): void {
  charge.status = 'succeeded'
  charge.paid = true
  charge.amount_captured = charge.amount
  charge.outcome = authorized
  intent.status = 'succeeded'
  intent.amount_received = intent.amount
  if (settingsOf(world, ownerOf(world, charge)).capture === 'immediate') bookCharge(world, charge)
  else world.openCaptures.add(charge.id)
  emit(world, 'charge.succeeded', charge)
}

function fail(intent: PaymentIntent, charge: Charge): void {
  charge.status = 'failed'
  charge.captured = false
  charge.failure_code = 'card_declined'
  charge.failure_message = 'The payment was declined.'
  intent.status = 'requires_payment_method'
  intent.payment_method = null
}

/** Ends an asynchronous capture: the balance transaction and the application fee come. */
export function finishCapture(world: World, charge: Charge): Charge {
  if (!world.openCaptures.delete(charge.id)) throw impossible(`${charge.id} has no capture under way`)
  const { balance_transaction, application_fee } = charge
  bookCharge(world, charge)
  emit(world, 'charge.updated', charge, {
    balance_transaction,
    ...(charge.application_fee !== null && { application_fee }),
  })
  return charge
}

function bookCharge(world: World, charge: Charge): void {
  charge.balance_transaction = newId('txn')
  const account = ownerOf(world, charge)
  const amount = charge.application_fee_amount ?? 0
  if (account === null || amount === 0) return
  // The fee of a direct charge and its event belong to the platform.
  const fee = newApplicationFee(world.now, account, charge, amount)
  add(world, world.applicationFees, null, fee)
  charge.application_fee = fee.id
  emit(world, 'application_fee.created', fee)
}

/** Finds a paid charge by its id, or by the id of its payment intent or checkout session. */
export function findPaidCharge(world: World, id: string): Charge {
  const intentId = world.sessions.get(id)?.payment_intent ?? id
  const chargeId = world.paymentIntents.get(intentId)?.latest_charge ?? id
  const charge = need(world.charges, 'charge', chargeId)
  if (!charge.paid) throw impossible(`${chargeId} was not paid: it is ${charge.status}`)
  return charge
}
