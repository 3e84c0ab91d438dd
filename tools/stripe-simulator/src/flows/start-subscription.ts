import { firstPeriod } from '../objects/billing-period.ts'
import { newLine } from '../objects/invoice-line.ts'
import { newSubscription } from '../objects/subscription.ts'
import type { CheckoutSession } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { draftInvoice, finalizeInvoice, settleInvoice, submitInvoice } from './collect-invoice.ts'
import type { Payer } from './collect-payment.ts'
import { findOwned } from './find.ts'

/**
 * The first invoice is paid before the session completes, and so `invoice.paid` leaves first,
 * as is often seen with Stripe. A delayed first payment leaves the subscription active, the invoice open.
 */
export function startSubscription(
  world: World,
  account: Owner,
  session: CheckoutSession,
  payer: Payer,
): void {
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, session.id)
  const created = world.clock.now()
  const items = plan.lines.map(({ price, quantity }) => {
    return { price, quantity, period: firstPeriod(created, price) }
  })
  const subscription = world.subscriptions.add(
    account,
    newSubscription({
      created,
      currency: session.currency ?? '',
      customer: newId('cus'),
      description: plan.description,
      paymentMethod: newId('pm'),
      metadata: { ...plan.metadata },
      applicationFeePercent: plan.applicationFeePercent,
      items,
    }),
  )
  const lines = subscription.items.data.map((item) => {
    const period = { start: item.current_period_start, end: item.current_period_end }
    return newLine({ subscription, item, price: item.price, period })
  })
  const invoice = draftInvoice(world, account, {
    reason: 'subscription_create',
    subscription,
    email: payer.email,
    lines,
    closes: { start: created, end: created },
    finalizesAt: null,
  })
  finalizeInvoice(world, account, invoice)
  session.customer = subscription.customer
  session.subscription = subscription.id
  session.invoice = invoice.id
  world.emitter.emit(account, 'customer.subscription.created', subscription)

  const settlesNow = payer.method === 'card' || invoice.amount_due === 0
  submitInvoice(world, account, invoice, payer)
  if (!settlesNow) return
  settleInvoice(world, account, invoice, 'succeeded')
  session.payment_status = invoice.amount_due === 0 ? 'no_payment_required' : 'paid'
}
