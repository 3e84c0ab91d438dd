import type { CheckoutSession } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { settleInvoice } from './collect-invoice.ts'
import { settlePayment } from './collect-payment.ts'
import type { PaymentOutcome } from './collect-payment.ts'
import { findOwned } from './find.ts'
import { markPastDue } from './subscription-status.ts'

/** Days after checkout a delayed payment succeeds or fails. */
export function settleSession(
  world: World,
  account: Owner,
  session: CheckoutSession,
  result: PaymentOutcome,
): CheckoutSession {
  if (session.mode === 'subscription') {
    const invoice = findOwned(world.invoices, 'invoice', account, session.invoice ?? '')
    settleInvoice(world, account, invoice, result)
    if (result === 'failed') markPastDue(world, account, session.subscription ?? '')
  } else {
    const intent = findOwned(world.paymentIntents, 'payment_intent', account, session.payment_intent ?? '')
    settlePayment(world, account, intent, result)
  }
  if (result === 'succeeded') session.payment_status = 'paid'
  world.emitter.emit(account, `checkout.session.async_payment_${result}`, session)
  return session
}
