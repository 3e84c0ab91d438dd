import type { FinalAction } from '../objects/subscription-state.ts'
import type { Invoice, Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { finalizeInvoice, settleInvoice, submitInvoice } from './collect-invoice.ts'
import { endSubscription, markPastDue, updateSubscription } from './subscription-status.ts'

const day = 24 * 3600

/** Pauses before the second, third and fourth attempt. The fourth is the last. */
const retryDelays = [3 * day, 5 * day, 7 * day]

export type Failure = {
  /** The attempt that this failure is, instead of the next one. */
  attempt: number | undefined
  /** A retry by hand: Stripe does not count it. */
  manual: boolean
  /** No further retry; so is the fourth attempt. */
  final: boolean | undefined
  afterFinal: FinalAction
}

/** The latest invoice of a subscription while nobody has paid it: a draft, or open. A kept draft is left alone. */
export function unpaidInvoice(world: World, account: Owner, subscription: Subscription): Invoice | undefined {
  const latest = world.invoices.find(account, subscription.latest_invoice ?? '')
  if (latest?.status === 'draft' && !latest.auto_advance) return undefined
  return latest?.status === 'open' || latest?.status === 'draft' ? latest : undefined
}

export function payInvoice(world: World, account: Owner, subscription: Subscription, invoice: Invoice): void {
  submit(world, account, invoice)
  settleInvoice(world, account, invoice, 'succeeded')
  const isTrialing = (subscription.trial_end ?? 0) > world.clock.now()
  if (subscription.status !== 'active' && !isTrialing) {
    updateSubscription(world, account, subscription, { status: 'active' })
  }
}

/** While collection is paused, an invoice is not collected; otherwise `collect` does it. */
export function unlessPaused(
  world: World,
  account: Owner,
  { pause_collection: pause }: Subscription,
  invoice: Invoice,
  collect: () => void,
): void {
  if (pause === null) return collect()
  if (pause.behavior === 'keep_as_draft') {
    invoice.auto_advance = false
    invoice.automatically_finalizes_at = null
    return
  }
  finalizeInvoice(world, account, invoice)
  const now = world.clock.now()
  invoice.auto_advance = false
  if (pause.behavior === 'void') {
    invoice.status = 'void'
    invoice.status_transitions.voided_at = now
    world.emitter.emit(account, 'invoice.voided', invoice)
  } else {
    invoice.status = 'uncollectible'
    invoice.status_transitions.marked_uncollectible_at = now
    world.emitter.emit(account, 'invoice.marked_uncollectible', invoice)
  }
}

export function declineInvoice(
  world: World,
  account: Owner,
  subscription: Subscription,
  invoice: Invoice,
  failure: Failure,
): void {
  const before = invoice.attempt_count
  submit(world, account, invoice)
  const count = failure.attempt ?? (failure.manual ? Math.max(before, 1) : before + 1)
  const delay = retryDelays[count - 1]
  const final = failure.final ?? delay === undefined
  const next = final ? null : world.clock.now() + (delay ?? day)
  settleInvoice(world, account, invoice, 'failed', { count, next })
  markPastDue(world, account, subscription.id)
  if (!final) return
  if (failure.afterFinal === 'cancel') endSubscription(world, account, subscription, 'payment_failed')
  if (failure.afterFinal === 'unpaid') updateSubscription(world, account, subscription, { status: 'unpaid' })
}

function submit(world: World, account: Owner, invoice: Invoice): void {
  if (invoice.status === 'draft') finalizeInvoice(world, account, invoice)
  submitInvoice(world, account, invoice, { method: 'card', email: invoice.customer_email ?? '' })
}
