import type { Invoice } from '../objects/wire.ts'
import type { World } from '../world/world.ts'
import { settleInvoice, submitInvoice } from './collect-invoice.ts'
import { findLiveSubscription } from './find.ts'
import { openNextInvoice, owedInvoice } from './renew-subscription.ts'
import { endSubscription, markPastDue, updateSubscription } from './subscription-status.ts'

const lastAttempt = 4
const retryAfterSeconds = 3 * 24 * 3600

export type Failing = {
  /** The attempt this failure is, instead of the next one. */
  attempt: number | undefined
  /** A retry by hand: Stripe does not count it. */
  manual: boolean
  /** No further retry; so is the fourth attempt. */
  final: boolean | undefined
  /** What the vendor's settings do to the subscription after the last attempt. */
  afterFinal: 'cancel' | 'unpaid' | 'leave'
}

/** A renewal's payment fails: on the invoice that is owed, or on the next one, made for it. */
export function failInvoice(world: World, subscriptionId: string, failing: Failing): Invoice {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const invoice = owedInvoice(world, account, subscription) ?? openNextInvoice(world, account, subscription)
  const before = invoice.attempt_count
  submitInvoice(world, account, invoice, { method: 'card', email: invoice.customer_email ?? '' })
  const count = failing.attempt ?? (failing.manual ? Math.max(before, 1) : before + 1)
  const final = failing.final ?? count >= lastAttempt
  const next = final ? null : world.clock.now() + retryAfterSeconds
  settleInvoice(world, account, invoice, 'failed', { count, next })
  markPastDue(world, account, subscription.id)
  if (final && failing.afterFinal === 'cancel')
    endSubscription(world, account, subscription, 'payment_failed')
  if (final && failing.afterFinal === 'unpaid') {
    updateSubscription(world, account, subscription, { status: 'unpaid' })
  }
  return invoice
}
