import {
  addInvoiceItems,
  addItem,
  changePrice,
  prorations,
  removeItem,
  startTrial,
} from '../flows/change-items.ts'
import { payInvoice, subscriptionOf } from '../flows/collect-invoice.ts'
import { findAnywhere, findLiveSubscription } from '../flows/find.ts'
import { failInvoice, renewSubscription } from '../flows/renew-subscription.ts'
import {
  cancelAtPeriodEnd,
  endSubscription,
  undoCancel,
  updateSubscription,
} from '../flows/subscription-status.ts'
import type { Params } from '../http/params.ts'
import { impossible } from '../http/stripe-error.ts'
import { finalActions } from '../objects/subscription.ts'
import type { World } from '../world/world.ts'
import type { Action } from './control.ts'

const pauseBehaviors = ['keep_as_draft', 'mark_uncollectible', 'void'] as const

const endReasons = ['cancellation_requested', 'payment_failed', 'payment_disputed'] as const

export const subscriptionActions: Record<string, Action> = {
  renew: (world, params) => {
    params.only('subscription', 'paid_after_seconds', 'first_part')
    return renewSubscription(world, params.required('subscription'), {
      paidAfterSeconds: params.integer('paid_after_seconds'),
      firstPart: params.integer('first_part', 1),
    })
  },
  'fail-invoice': (world, params) => {
    params.only('subscription', 'manual', 'after_final')
    return failInvoice(world, params.required('subscription'), {
      manual: params.boolean('manual') ?? false,
      afterFinal: params.oneOf('after_final', finalActions) ?? 'leave',
    })
  },
  'change-price': (world, params) => {
    params.only('subscription', 'item', 'price', 'quantity', 'proration')
    return changePrice(world, params.required('subscription'), {
      item: params.string('item'),
      price: params.required('price'),
      quantity: params.integer('quantity', 1),
      proration: params.oneOf('proration', prorations) ?? 'always_invoice',
    })
  },
  'add-item': (world, params) => {
    params.only('subscription', 'price', 'quantity', 'proration')
    return addItem(world, params.required('subscription'), {
      price: params.required('price'),
      quantity: params.integer('quantity', 1) ?? 1,
      proration: params.oneOf('proration', prorations) ?? 'always_invoice',
    })
  },
  'remove-item': (world, params) => {
    params.only('subscription', 'item', 'proration')
    const proration = params.oneOf('proration', prorations) ?? 'always_invoice'
    return removeItem(world, params.required('subscription'), params.required('item'), proration)
  },
  'invoice-item': (world, params) => {
    params.only('subscription', 'amount', 'price', 'start', 'end', 'count')
    const [start, end] = [params.integer('start'), params.integer('end')]
    return addInvoiceItems(world, params.required('subscription'), {
      amount: params.integer('amount') ?? 100,
      price: params.string('price'),
      period: { ...(start !== undefined && { start }), ...(end !== undefined && { end }) },
      count: params.integer('count', 1) ?? 1,
    })
  },
  'pause-collection': (world, params) => {
    params.only('subscription', 'behavior')
    const { account, object } = findLiveSubscription(world, params.required('subscription'))
    const behavior = params.oneOf('behavior', pauseBehaviors)
    const pause = behavior === undefined ? null : { behavior, resumes_at: null }
    updateSubscription(world, account, object, { pause_collection: pause })
    return object
  },
  'pay-invoice': (world, params) => {
    const id = params.only('invoice').required('invoice')
    const { account, object: invoice } = findAnywhere(world.invoices, 'invoice', id)
    const { object: subscription } = findLiveSubscription(world, subscriptionOf(invoice))
    if (invoice.status !== 'draft' && invoice.status !== 'open')
      throw impossible(`${id} is ${invoice.status}`)
    payInvoice(world, account, subscription, invoice)
    return invoice
  },
  trial: (world, params) => {
    params.only('subscription', 'until')
    return startTrial(world, params.required('subscription'), params.requiredInteger('until'))
  },
  cancel,
}

function cancel(world: World, params: Params): object {
  params.only('subscription', 'when', 'reason')
  const when = params.oneOf('when', ['now', 'period_end', 'undo']) ?? 'now'
  const reason = params.oneOf('reason', endReasons) ?? 'cancellation_requested'
  const { account, object } = findLiveSubscription(world, params.required('subscription'))
  if (when === 'now') endSubscription(world, account, object, reason)
  else if (when === 'period_end') cancelAtPeriodEnd(world, account, object)
  else undoCancel(world, account, object)
  return object
}
