import type { Params } from '../http/params.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

/** One authenticated API request. */
export type Call = {
  world: World
  /** From `Stripe-Account`; null is the platform itself. */
  account: Owner
  /** The id in the path, empty where there is none. */
  id: string
  params: Params
}

export type Handler = (call: Call) => object

export type Route = readonly [method: 'GET' | 'POST' | 'DELETE', path: string, handler: Handler]
