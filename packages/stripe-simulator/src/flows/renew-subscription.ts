import { nextPeriod } from '../objects/billing-period.ts'
import type { Period } from '../objects/billing-period.ts'
import type { Invoice, Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { openInvoice, settleInvoice, submitInvoice } from './collect-invoice.ts'
import type { Payer } from './collect-payment.ts'
import { findLiveSubscription } from './find.ts'
import { endSubscription, updateSubscription } from './subscription-status.ts'

const payer: Payer = { method: 'card', email: 'buyer@example.com' }

/**
 * The period ends. An invoice that is still owed is paid first; otherwise the next one is made and paid,
 * unless the subscription was booked to end here.
 */
export function renewSubscription(world: World, subscriptionId: string): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const owed = owedInvoice(world, account, subscription)
  if (owed === undefined && subscription.cancel_at_period_end) {
    endSubscription(world, account, subscription, 'cancellation_requested')
    return subscription
  }
  const invoice = owed ?? openNextInvoice(world, account, subscription)
  submitInvoice(world, account, invoice, payer)
  settleInvoice(world, account, invoice, 'succeeded')
  if (subscription.status !== 'active') {
    updateSubscription(world, account, subscription, { status: 'active' })
  }
  return subscription
}

export function owedInvoice(world: World, account: Owner, subscription: Subscription): Invoice | undefined {
  const latest = world.invoices.find(account, subscription.latest_invoice ?? '')
  return latest?.status === 'open' ? latest : undefined
}

export function openNextInvoice(world: World, account: Owner, subscription: Subscription): Invoice {
  const before = structuredClone({
    items: subscription.items,
    latest_invoice: subscription.latest_invoice,
  })
  const closes = currentPeriod(subscription)
  const periods = advance(subscription)
  const invoice = openInvoice(world, account, {
    reason: 'subscription_cycle',
    subscription,
    email: payer.email,
    periods,
    closes,
  })
  world.emitter.emit(account, 'customer.subscription.updated', subscription, before)
  return invoice
}

function currentPeriod(subscription: Subscription): Period {
  const [item] = subscription.items.data
  if (item === undefined) throw new Error(`subscription ${subscription.id} has no item`)
  return { start: item.current_period_start, end: item.current_period_end }
}

function advance(subscription: Subscription): Period[] {
  return subscription.items.data.map((item) => {
    const current = { start: item.current_period_start, end: item.current_period_end }
    const next = nextPeriod(subscription.billing_cycle_anchor, current, item.price)
    item.current_period_start = next.start
    item.current_period_end = next.end
    return next
  })
}
