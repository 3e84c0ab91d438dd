import type { World } from '../world/world.ts'
import { finishCapture } from './collect-payment.ts'
import { expireSession } from './open-checkout.ts'

/**
 * Expires sessions and ends asynchronous captures that have become due, in order of time, each at its own time.
 *
 * @returns how many
 */
export function runDue(world: World): number {
  const { clock } = world
  const sessions = world.sessions
    .dump()
    .filter(({ object }) => object.status === 'open')
    .map(({ account, object }) => ({
      at: object.expires_at,
      customer: null,
      run: () => void expireSession(world, account, object),
    }))
  const captures = world.openCaptures.dump().map(({ account, object }) => ({
    at: object.due_at,
    customer: world.charges.find(account, object.id)?.customer ?? null,
    run: () => void finishCapture(world, account, object.id),
  }))
  const due = [...sessions, ...captures]
    .filter(({ at, customer }) => at <= clock.nowOf(customer))
    .toSorted((a, b) => a.at - b.at)
  for (const { at, run } of due) clock.during(at, run)
  return due.length
}
