import { impossible } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newId } from '../ids.ts'
import { firstPeriod, nextPeriod, type Period } from '../objects/billing-period.ts'
import { newLine } from '../objects/invoice-line.ts'
import { newSubscription } from '../objects/subscription.ts'
import type { Invoice, Subscription, SubscriptionItem } from '../objects/wire.ts'
import { add, at, realTime, type Order, type Owner, type World } from '../world.ts'
import {
  draftInvoice,
  finalizeInvoice,
  ledgerOf,
  settleInvoice,
  splitPayment,
  submitInvoice,
} from './invoice.ts'
import type { Payer } from './payment.ts'

export const buyer = 'buyer@example.com'

/**
 * Starts the subscription of a session. The first invoice is paid before the session completes, so `invoice.paid` is sent
 * first, as is common with Stripe. A delayed first payment leaves the subscription active and the invoice open.
 */
export function startSubscription(
  world: World,
  account: Owner,
  order: Order,
  payer: Payer,
): { subscription: Subscription; invoice: Invoice } {
  const created = world.now
  const subscription = newSubscription({
    created,
    currency: order.lines[0]!.price.currency,
    customer: newId('cus'),
    paymentMethod: newId('pm'),
    metadata: { ...order.metadata },
    applicationFeePercent: order.applicationFeePercent,
    items: order.lines.map((line) => ({ ...line, period: firstPeriod(created, line.price) })),
  })
  add(world, world.subscriptions, account, subscription)
  world.ledgers.set(subscription.id, { balance: 0, pendingLines: [] })
  const invoice = draftInvoice(world, {
    reason: 'subscription_create',
    subscription,
    email: payer.email,
    lines: subscription.items.data.map((item) => newLine({ subscription, item, period: periodOf(item) })),
    closes: { start: created, end: created },
    finalizesAt: null,
  })
  finalizeInvoice(world, invoice)
  submitInvoice(world, invoice, payer)
  if (payer.method === 'card' || invoice.amount_due === 0) settleInvoice(world, invoice, 'succeeded')
  return { subscription, invoice }
}

type Renewing = {
  /** The time of the attempt; if undefined, it is when Stripe would make it. */
  created?: number | undefined
  /** The amount of a first payment, if the invoice is paid by two. */
  firstPart?: number | undefined
}

/**
 * Moves on to the end of the period. An open invoice is paid first. Otherwise the next invoice is created and paid about an
 * hour later, unless the subscription is to end with the period.
 */
export function renew(world: World, subscription: Subscription, { created, firstPart }: Renewing): void {
  if (subscription.cancel_at_period_end && unpaidInvoice(world, subscription) === undefined) {
    const end = created ?? Math.max(currentPeriod(subscription).end, world.now)
    at(world, end, () => endSubscription(world, subscription, 'cancellation_requested'))
    moveClock(world, subscription, end)
    return
  }
  attempt(world, subscription, { created, isManual: false }, (invoice) => {
    if (firstPart !== undefined) {
      if (invoice.status === 'draft') finalizeInvoice(world, invoice)
      splitPayment(world, invoice, firstPart)
    }
    payInvoice(world, subscription, invoice)
  })
}

export function payInvoice(world: World, subscription: Subscription, invoice: Invoice): void {
  submit(world, invoice)
  settleInvoice(world, invoice, 'succeeded')
  if (subscription.status !== 'active') updateSubscription(world, subscription, { status: 'active' })
}

function submit(world: World, invoice: Invoice): void {
  if (invoice.status === 'draft') finalizeInvoice(world, invoice)
  submitInvoice(world, invoice, { method: 'card', email: invoice.customer_email ?? buyer })
}

const day = 24 * 3600

/** Delays before the second, third and fourth attempt. The fourth is the last. */
const retryDelays = [3 * day, 5 * day, 7 * day]

type Failing = {
  created?: number | undefined
  /** A retry by the vendor, which Stripe does not count. */
  isManual: boolean
  /** The vendor's setting for a subscription after the last failed attempt. */
  afterFinal: 'leave' | 'cancel'
}

/** Lets the payment of a renewal fail: on the open invoice, or on the next invoice, which is created for it. */
export function failInvoice(world: World, subscription: Subscription, failing: Failing): Invoice {
  return attempt(world, subscription, failing, (invoice) => {
    const before = invoice.attempt_count
    submit(world, invoice)
    const count = failing.isManual ? Math.max(before, 1) : before + 1
    const delay = retryDelays[count - 1]
    const next = delay === undefined ? null : world.now + delay
    settleInvoice(world, invoice, 'failed', { count, next })
    markPastDue(world, subscription)
    const isLast = next === null && failing.afterFinal === 'cancel'
    if (isLast) endSubscription(world, subscription, 'payment_failed')
  })
}

/** How long the invoice of a renewal stays a draft. At Stripe it is about an hour. */
const draftSeconds = 3600

/** Moves the customer's clock to the time of the attempt, and collects the owed or the next invoice, unless collection is paused. */
function attempt(
  world: World,
  subscription: Subscription,
  { created, isManual }: { created?: number | undefined; isManual: boolean },
  collect: (invoice: Invoice) => void,
): Invoice {
  const owed = unpaidInvoice(world, subscription)
  const periodEnd = currentPeriod(subscription).end
  const due = owed === undefined ? periodEnd + draftSeconds : dueTime(owed, isManual)
  const time = created ?? Math.max(world.now, due)
  // The invoice is created when its period ends, or an hour before the attempt if that is later, so that it is a draft for an hour.
  const drafted = created === undefined ? Math.max(periodEnd, time - draftSeconds) : Math.min(periodEnd, time)
  const invoice = owed ?? at(world, drafted, () => closePeriod(world, subscription))
  at(world, time, () => {
    if (subscription.pause_collection === null) collect(invoice)
    else setAside(world, invoice, subscription.pause_collection.behavior)
  })
  moveClock(world, subscription, time)
  return invoice
}

/** The latest invoice if it is unpaid: a draft, or open. A draft kept by paused collection is excluded. */
function unpaidInvoice(world: World, subscription: Subscription): Invoice | undefined {
  const latest = world.invoices.get(subscription.latest_invoice ?? '')
  if (latest?.status === 'draft') return latest.auto_advance ? latest : undefined
  return latest?.status === 'open' ? latest : undefined
}

function dueTime(owed: Invoice, isManual: boolean): number {
  if (owed.status === 'draft') return owed.automatically_finalizes_at ?? 0
  return isManual ? 0 : (owed.next_payment_attempt ?? 0)
}

function moveClock(world: World, { customer }: Subscription, time: number): void {
  world.ahead.set(customer, Math.max(world.ahead.get(customer) ?? 0, time - realTime()))
}

/** Ends the period: the next one begins, and its invoice is a draft with the pending lines. */
function closePeriod(world: World, subscription: Subscription): Invoice {
  const { items, latest_invoice } = structuredClone(subscription)
  const closes = currentPeriod(subscription)
  const ledger = ledgerOf(world, subscription)
  // An item with another interval is invoiced only if its own period ends.
  const ending = subscription.items.data.filter((item) => item.current_period_end <= closes.end)
  const lines = ending.map((item) => {
    const period = nextPeriod(subscription.billing_cycle_anchor, periodOf(item), item.price)
    item.current_period_start = period.start
    item.current_period_end = period.end
    return newLine({ subscription, item, period })
  })
  const invoice = draftInvoice(world, {
    reason: 'subscription_cycle',
    subscription,
    email: buyer,
    lines: [...ledger.pendingLines, ...lines],
    closes,
    finalizesAt: world.now + draftSeconds,
  })
  ledger.pendingLines = []
  emit(world, 'customer.subscription.updated', subscription, { items, latest_invoice })
  return invoice
}

/** The period of the item that ends first. */
function currentPeriod({ items }: Subscription): Period {
  const [first] = items.data.toSorted((a, b) => a.current_period_end - b.current_period_end)
  return periodOf(first!)
}

export function periodOf(item: SubscriptionItem): Period {
  return { start: item.current_period_start, end: item.current_period_end }
}

export const pauseBehaviors = ['keep_as_draft', 'mark_uncollectible', 'void'] as const

/** Keeps, voids or writes off an invoice while collection is paused. */
function setAside(world: World, invoice: Invoice, behavior: (typeof pauseBehaviors)[number]): void {
  if (behavior === 'keep_as_draft') {
    invoice.auto_advance = false
    invoice.automatically_finalizes_at = null
    return
  }
  finalizeInvoice(world, invoice)
  invoice.auto_advance = false
  if (behavior === 'void') {
    invoice.status = 'void'
    invoice.status_transitions.voided_at = world.now
  } else {
    invoice.status = 'uncollectible'
    invoice.status_transitions.marked_uncollectible_at = world.now
  }
}

/** Makes the change, and emits `customer.subscription.updated` with the previous values. */
export function updateSubscription(
  world: World,
  subscription: Subscription,
  change: Partial<Subscription>,
): Subscription {
  const names = Object.keys(change) as (keyof Subscription)[]
  const previous = Object.fromEntries(names.map((name) => [name, subscription[name]]))
  Object.assign(subscription, change)
  emit(world, 'customer.subscription.updated', subscription, previous)
  return subscription
}

export function markPastDue(world: World, subscription: Subscription): void {
  if (subscription.status === 'active') updateSubscription(world, subscription, { status: 'past_due' })
}

/** A customer changes the card, with which an invoice that could not be collected is paid at once. */
export function changeCard(world: World, subscription: Subscription): Subscription {
  updateSubscription(world, subscription, { default_payment_method: newId('pm') })
  const owed = unpaidInvoice(world, subscription)
  if (owed?.status === 'open') payInvoice(world, subscription, owed)
  return subscription
}

export const endReasons = ['cancellation_requested', 'payment_failed', 'payment_disputed'] as const
type EndReason = (typeof endReasons)[number]

export function endSubscription(world: World, subscription: Subscription, reason: EndReason): Subscription {
  subscription.status = 'canceled'
  subscription.canceled_at ??= world.now
  subscription.ended_at = world.now
  subscription.cancellation_details = cancellationDetails(reason)
  emit(world, 'customer.subscription.deleted', subscription)
  return subscription
}

function cancellationDetails(reason: EndReason | null): Subscription['cancellation_details'] {
  return { comment: null, feedback: null, feedback_option: null, reason }
}

/** Cancels a subscription at the end of its period. Until then it stays active. */
export function cancelAtPeriodEnd(world: World, subscription: Subscription): Subscription {
  if (subscription.cancel_at_period_end) return subscription
  return updateSubscription(world, subscription, {
    cancel_at: currentPeriod(subscription).end,
    cancel_at_period_end: true,
    canceled_at: world.now,
    cancellation_details: cancellationDetails('cancellation_requested'),
  })
}

export function undoCancel(world: World, subscription: Subscription): Subscription {
  if (!subscription.cancel_at_period_end) throw impossible(`${subscription.id} is not booked to end`)
  return updateSubscription(world, subscription, {
    cancel_at: null,
    cancel_at_period_end: false,
    canceled_at: null,
    cancellation_details: cancellationDetails(null),
  })
}
