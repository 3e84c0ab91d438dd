import { cancelAtPeriodEnd, undoCancel } from '../flows/cancel-subscription.ts'
import { changePrice, prorations } from '../flows/change-price.ts'
import { findLiveSubscription } from '../flows/find.ts'
import { failInvoice, renewSubscription } from '../flows/renew-subscription.ts'
import { stateOf } from '../flows/subscription-state.ts'
import { endSubscription } from '../flows/subscription-status.ts'
import type { Params } from '../http/params.ts'
import { finalActions } from '../objects/subscription-state.ts'
import type { World } from '../world/world.ts'
import type { Action } from './action.ts'

const endReasons = ['cancellation_requested', 'payment_failed', 'payment_disputed'] as const

export const subscriptionActions: Record<string, Action> = {
  renew: (world, params) => {
    params.only('subscription', 'paid_after_seconds')
    return renewSubscription(world, params.required('subscription'), params.integer('paid_after_seconds'))
  },
  'fail-invoice': (world, params) => {
    params.only('subscription', 'attempt', 'manual', 'final', 'after_final')
    return failInvoice(world, params.required('subscription'), {
      attempt: params.integer('attempt', 1),
      manual: params.boolean('manual') ?? false,
      final: params.boolean('final'),
      afterFinal: params.oneOf('after_final', finalActions) ?? 'leave',
    })
  },
  card: (world, params) => {
    params.only('subscription', 'declines', 'after_final')
    const { account, object } = findLiveSubscription(world, params.required('subscription'))
    const state = stateOf(world, account, object.id)
    state.cardDeclines = params.boolean('declines') ?? true
    state.afterFinal = params.oneOf('after_final', finalActions) ?? 'leave'
    return object
  },
  'change-price': (world, params) => {
    params.only('subscription', 'price', 'quantity', 'proration')
    return changePrice(world, params.required('subscription'), {
      price: params.required('price'),
      quantity: params.integer('quantity', 1),
      proration: params.oneOf('proration', prorations) ?? 'always_invoice',
    })
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
