import { findAnywhere } from '../flows/find.ts'
import { runDue } from '../flows/run-due.ts'
import type { Params } from '../http/params.ts'
import { impossible } from '../http/stripe-error.ts'
import type { World } from '../world/world.ts'

/** Moves everyone's clock, or one subscription's, and does what has become due by it. */
export function setClock(world: World, params: Params): object {
  params.only('now', 'offset_seconds', 'advance_seconds', 'reset', 'subscription')
  const subscription = params.string('subscription')
  if (subscription === undefined) setEveryone(world, params)
  else moveOn(world, params, findAnywhere(world.subscriptions, 'subscription', subscription).object.customer)
  runDue(world, { unattended: false })
  return clockState(world)
}

export function clockState(world: World): object {
  return { now: world.clock.now(), ...world.clock.setting() }
}

function setEveryone({ clock }: World, params: Params): void {
  const now = params.integer('now')
  const offset = params.integer('offset_seconds', -Infinity)
  const advance = params.integer('advance_seconds', -Infinity)
  if (params.boolean('reset') === true) clock.offset(0)
  if (now !== undefined) clock.freeze(now)
  if (offset !== undefined) clock.offset(offset)
  if (advance !== undefined) clock.advance(advance)
}

function moveOn({ clock }: World, params: Params, customer: string): void {
  const present = clock.nowOf(customer)
  const to = params.integer('now') ?? present + (params.integer('advance_seconds') ?? 0)
  if (to < present) throw impossible(`the subscription's clock is at ${present} and does not go back`)
  clock.moveCustomer(customer, to)
}
