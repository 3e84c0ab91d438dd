import { invalidRequest } from '../http/stripe-error.ts'
import type { CheckoutSession } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

export function expireSession(world: World, account: Owner, session: CheckoutSession): CheckoutSession {
  if (session.status !== 'open') {
    throw invalidRequest(
      `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of \`${session.status}\`.`,
    )
  }
  session.status = 'expired'
  session.url = null
  world.emitter.emit(account, 'checkout.session.expired', session)
  return session
}
