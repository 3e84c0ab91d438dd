import type { Control } from '../control/control.ts'
import { findAnywhere } from '../flows/find.ts'
import type { Params } from '../http/params.ts'
import { impossible } from '../http/stripe-error.ts'

/** The buttons beside the events. */
export const deliveryActions: Record<string, (control: Control, params: Params) => Promise<void> | void> = {
  hold({ deliveries }) {
    deliveries.rules.add({
      action: 'hold',
      types: [],
      account: undefined,
      remaining: null,
      delay_ms: 0,
      times: 1,
      signature: 'valid',
    })
  },

  release({ deliveries }, params) {
    const held = deliveries.held()
    deliveries.rules.stopHolding()
    deliveries.release(params.string('order') === 'reversed' ? held.toReversed() : held)
  },

  async redeliver({ world, deliveries }, params) {
    const { object } = findAnywhere(world.events, 'event', params.required('event'))
    if (deliveries.endpoint === null) throw impossible('No webhook endpoint is set.')
    deliveries.record(object.id, await deliveries.send(object, 'valid'))
  },
}
