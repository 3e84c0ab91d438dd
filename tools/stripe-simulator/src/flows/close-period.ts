import { nextPeriod } from '../objects/billing-period.ts'
import type { Period } from '../objects/billing-period.ts'
import { newLine } from '../objects/invoice-line.ts'
import type { Invoice, Subscription, SubscriptionItem } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { draftInvoice } from './collect-invoice.ts'
import { stateOf } from './subscription-state.ts'

/** How long the invoice of a renewal stays a draft, at Stripe about an hour. */
export const draftSeconds = 3600

/**
 * The period ends: the subscription is in the next one at once, and that one's invoice is a draft, with the prorations
 * that waited for it. It is finalized and collected later. Items with another interval are not on it before their own
 * period ends.
 */
export function closePeriod(world: World, account: Owner, subscription: Subscription): Invoice {
  const before = structuredClone({
    items: subscription.items,
    latest_invoice: subscription.latest_invoice,
  })
  const closes = currentPeriod(subscription)
  const state = stateOf(world, account, subscription.id)
  const lines = [
    ...state.pendingLines,
    ...endingWith(subscription, closes.end).map((item) => {
      const period = nextPeriod(subscription.billing_cycle_anchor, periodOf(item), item.price)
      item.current_period_start = period.start
      item.current_period_end = period.end
      return newLine({ subscription, item, price: item.price, period })
    }),
  ]
  state.pendingLines = []
  const invoice = draftInvoice(world, account, {
    reason: 'subscription_cycle',
    subscription,
    email: 'buyer@example.com',
    lines,
    closes,
    finalizesAt: world.clock.now() + draftSeconds,
  })
  world.emitter.emit(account, 'customer.subscription.updated', subscription, before)
  return invoice
}

/** That of the item whose period ends first. */
export function currentPeriod(subscription: Subscription): Period {
  const [first] = subscription.items.data.toSorted((a, b) => a.current_period_end - b.current_period_end)
  if (first === undefined) throw new Error(`subscription ${subscription.id} has no item`)
  return periodOf(first)
}

function endingWith({ items }: Subscription, end: number): SubscriptionItem[] {
  return items.data.filter((item) => item.current_period_end <= end)
}

export function periodOf(item: SubscriptionItem): Period {
  return { start: item.current_period_start, end: item.current_period_end }
}
