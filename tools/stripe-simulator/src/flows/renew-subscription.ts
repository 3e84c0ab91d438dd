import { impossible } from '../http/stripe-error.ts'
import type { Invoice, Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { declineInvoice, payInvoice, unlessPaused, unpaidInvoice } from './attempt-invoice.ts'
import type { Failure } from './attempt-invoice.ts'
import { closePeriod, currentPeriod, draftSeconds } from './close-period.ts'
import { findLiveSubscription } from './find.ts'
import { endSubscription } from './subscription-status.ts'

/**
 * Goes on to the end of the period and what follows it: an invoice that is still owed is paid first; otherwise the next
 * one is made, and paid about an hour later, unless the subscription was booked to end here.
 */
export function renewSubscription(
  world: World,
  subscriptionId: string,
  paidAfterSeconds?: number,
): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  if (subscription.cancel_at_period_end && unpaidInvoice(world, account, subscription) === undefined) {
    const end = world.clock.chosen() ?? Math.max(currentPeriod(subscription).end, world.clock.now())
    world.clock.during(end, () => endSubscription(world, account, subscription, 'cancellation_requested'))
    world.clock.moveCustomer(subscription.customer, end)
    return subscription
  }
  attempt(world, account, subscription, { paidAfterSeconds }, (invoice) =>
    payInvoice(world, account, subscription, invoice),
  )
  return subscription
}

/** A renewal's payment fails: on the invoice that is owed, or on the next one, made for it. */
export function failInvoice(world: World, subscriptionId: string, failure: Failure): Invoice {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  return attempt(world, account, subscription, failure, (invoice) =>
    declineInvoice(world, account, subscription, invoice, failure),
  )
}

type When = { paidAfterSeconds?: number | undefined; manual?: boolean }

/** Moves the customer on to the time of the attempt, and makes it. */
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
  // An invoice is made when its period ends; one that is made too late for that has its hour as a draft all the same.
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
