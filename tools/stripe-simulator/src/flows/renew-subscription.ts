import { impossible } from '../http/stripe-error.ts'
import { nextPeriod, type Period } from '../objects/billing-period.ts'
import { newLine } from '../objects/invoice-line.ts'
import type { Invoice, Subscription, SubscriptionItem } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import {
  declineInvoice,
  draftInvoice,
  payInvoice,
  unlessPaused,
  unpaidInvoice,
  type Failure,
} from './collect-invoice.ts'
import { findLiveSubscription } from './find.ts'
import { endSubscription, stateOf } from './subscription-status.ts'

/**
 * Moves on to the end of the period. An open invoice is paid first. Otherwise the next invoice is created and paid about an
 * hour later, unless the subscription is to end with the period.
 */
export function renewSubscription(
  world: World,
  subscriptionId: string,
  {
    paidAfterSeconds,
    firstPart,
  }: { paidAfterSeconds?: number | undefined; firstPart?: number | undefined } = {},
): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  if (subscription.cancel_at_period_end && unpaidInvoice(world, account, subscription) === undefined) {
    const end = world.clock.chosen() ?? Math.max(currentPeriod(subscription).end, world.clock.now())
    world.clock.during(end, () => endSubscription(world, account, subscription, 'cancellation_requested'))
    world.clock.moveCustomer(subscription.customer, end)
    return subscription
  }
  attempt(world, account, subscription, { paidAfterSeconds }, (invoice) =>
    payInvoice(world, account, subscription, invoice, firstPart),
  )
  return subscription
}

/** Lets the payment of a renewal fail: on the open invoice, or on the next invoice, which is created for it. */
export function failInvoice(world: World, subscriptionId: string, failure: Failure): Invoice {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  return attempt(world, account, subscription, failure, (invoice) =>
    declineInvoice(world, account, subscription, invoice, failure),
  )
}

type When = { paidAfterSeconds?: number | undefined; manual?: boolean }

/** Moves the customer's clock to the time of the attempt, and runs the attempt. */
function attempt(
  world: World,
  account: Owner,
  subscription: Subscription,
  when: When,
  collect: (invoice: Invoice) => void,
): Invoice {
  const { clock } = world
  const owed = unpaidInvoice(world, account, subscription)
  const periodEnd = currentPeriod(subscription).end
  const due = owed === undefined ? periodEnd + draftSeconds : dueTime(owed, when)
  const fixed =
    clock.chosen() ?? (when.paidAfterSeconds === undefined ? null : periodEnd + when.paidAfterSeconds)
  const at = fixed ?? Math.max(clock.now(), due)
  if (owed !== undefined && when.paidAfterSeconds !== undefined) {
    throw impossible(`${owed.id} is owed already: paid_after_seconds is for the next invoice`)
  }
  // The invoice is created when its period ends, or an hour before the attempt if that is later, so that it is a draft for an hour.
  const drafted = fixed === null ? Math.max(periodEnd, at - draftSeconds) : Math.min(periodEnd, at)
  const invoice = owed ?? clock.during(drafted, () => closePeriod(world, account, subscription))
  clock.during(at, () => unlessPaused(world, account, subscription, invoice, () => collect(invoice)))
  clock.moveCustomer(subscription.customer, at)
  return invoice
}

function dueTime(owed: Invoice, { manual = false }: When): number {
  if (owed.status === 'draft') return owed.automatically_finalizes_at ?? 0
  return manual ? 0 : (owed.next_payment_attempt ?? 0)
}

/** How long the invoice of a renewal stays a draft. At Stripe it is about an hour. */
const draftSeconds = 3600

/**
 * Ends the period. The subscription enters the next period, and the invoice for it is a draft that contains the pending
 * prorations. It is finalized and collected later. It has items with another interval only if their own period ends.
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

/** The period of the item that ends first. */
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
