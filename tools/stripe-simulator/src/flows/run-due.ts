import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { declineInvoice, payInvoice, subscriptionOf, unlessPaused } from './collect-invoice.ts'
import { finishCapture } from './collect-payment.ts'
import { expireSession } from './open-checkout.ts'
import { closePeriod, currentPeriod } from './renew-subscription.ts'
import { endSubscription, stateOf } from './subscription-status.ts'

type Due = { at: number; customer: string | null; run: () => void }

/** The number of months in more than a century. Only an error in the code reaches it. */
const maxSteps = 2000

/**
 * Runs everything that has become due, in order of time, each at its own time. If only real time has passed (`unattended`),
 * nothing is renewed, because tests create subscriptions in the past and renew them themselves.
 */
export function runDue(world: World, { unattended }: { unattended: boolean }): number {
  const single = dueNow(world, [...dueSessions(world), ...dueCaptures(world)])
  for (const due of single) world.clock.during(due.at, due.run)
  if (unattended) return single.length
  // A change of a subscription can make its next step due.
  for (let steps = 0; steps < maxSteps; steps += 1) {
    const [next] = dueNow(world, [...dueRenewals(world), ...dueCaptures(world)])
    if (next === undefined) break
    world.clock.during(next.at, next.run)
  }
  return single.length
}

function dueNow(world: World, candidates: Due[]): Due[] {
  return candidates
    .filter(({ at, customer }) => at <= world.clock.nowOf(customer))
    .toSorted((a, b) => a.at - b.at)
}

/** Sessions that expire, each at its `expires_at`. */
function dueSessions(world: World): Due[] {
  return world.sessions
    .dump()
    .filter(({ object }) => object.status === 'open')
    .map(({ account, object }) => ({
      at: object.expires_at,
      customer: null,
      run: () => void expireSession(world, account, object),
    }))
}

function dueCaptures(world: World): Due[] {
  return world.openCaptures.dump().map(({ account, object }) => ({
    at: object.due_at,
    customer: world.charges.find(account, object.id)?.customer ?? null,
    run: () => void finishCapture(world, account, object.id),
  }))
}

function dueRenewals(world: World): Due[] {
  return world.subscriptions
    .dump()
    .filter(({ object }) => object.status !== 'canceled')
    .flatMap(({ account, object: subscription }) => {
      const { customer } = subscription
      const ends = {
        at: currentPeriod(subscription).end,
        customer,
        run: () => {
          if (subscription.cancel_at_period_end) {
            endSubscription(world, account, subscription, 'cancellation_requested')
          } else closePeriod(world, account, subscription)
        },
      }
      return [ends, ...dueInvoices(world, account, subscription.id).map((due) => ({ ...due, customer }))]
    })
}

function dueInvoices(world: World, account: Owner, subscriptionId: string): Omit<Due, 'customer'>[] {
  return world.invoices
    .list(account, (invoice) => subscriptionOf(invoice) === subscriptionId)
    .flatMap((invoice) => {
      const at =
        invoice.status === 'draft' ? invoice.automatically_finalizes_at : invoice.next_payment_attempt
      if (at === null || (invoice.status !== 'draft' && invoice.status !== 'open')) return []
      return [{ at, run: () => attemptByTime(world, account, subscriptionId, invoice.id) }]
    })
}

function attemptByTime(world: World, account: Owner, subscriptionId: string, invoiceId: string): void {
  const subscription = world.subscriptions.find(account, subscriptionId)
  const invoice = world.invoices.find(account, invoiceId)
  if (subscription === undefined || invoice === undefined) return
  const { cardDeclines, afterFinal } = stateOf(world, account, subscriptionId)
  unlessPaused(world, account, subscription, invoice, () => {
    if (!cardDeclines) return payInvoice(world, account, subscription, invoice)
    const failure = { attempt: undefined, manual: false, final: undefined, afterFinal }
    declineInvoice(world, account, subscription, invoice, failure)
  })
}
