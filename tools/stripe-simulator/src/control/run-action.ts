import { Params } from '../http/params.ts'
import { noSuch } from '../http/stripe-error.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { actions } from './actions.ts'
import { customerOf } from './customer-of.ts'

/** Any action may be given `created`: the time, in Unix seconds, at which it happens. */
export function runAction(world: World, name: string, values: unknown): object {
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (action === undefined) throw noSuch('action', name)
  const { created, ...rest } = Object(values) as Record<string, unknown>
  const at = new Params({ created }).integer('created')
  const cause = { id: isDashboardAction(name, rest) ? newId('req') : null, idempotency_key: null }
  const { clock, emitter } = world
  const customer = customerOf(world, Object.values(rest))
  const run = (): object => emitter.causedBy(cause, () => action(world, new Params(rest)))
  return clock.of(customer, () => clock.during(at, run))
}

/** Done in the vendor's dashboard, and so through Stripe's API; everything else just happens. */
function isDashboardAction(name: string, { reason }: Record<string, unknown>): boolean {
  return name === 'refund' || (name === 'cancel' && reason !== 'payment_failed')
}
