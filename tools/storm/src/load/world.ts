import type { FeedRead, Walk } from '../outcome.ts'
import type { StormStack } from '../stack/storm-stack.ts'
import type { Vendor } from '../stack/vendors.ts'
import type { Caller } from './caller.ts'

/** What the clients of one vendor know of, because it was answered. */
export interface Shop extends Vendor {
  /** Never archived. */
  steadyPlanId: string
  /** Archived and restored during the storm, by one client each. */
  changingPlanIds: string[]
  oneOffPlanId: string
  subscriptionPlanId: string
  merchant: string
  licences: { id: string; key: string }[]
  legacyKeys: string[]
  activations: { id: string; token: string; licenceId: string }[]
  definitions: string[]
  endpoints: string[]
  keys: string[]
  sessions: Bought[]
}

/** A checkout and what has become of it at the processor, as far as its client knows. */
export interface Bought {
  /** The processor's id; its last path segment of the session's url. */
  checkoutRef: string
  mode: 'payment' | 'subscription'
  paid: boolean
  subscription: string | undefined
  charge: string | undefined
  dispute: string | undefined
  over: boolean
}

export interface World {
  stack: StormStack
  caller: Caller
  shops: Shop[]
  feedReads: FeedRead[]
  walks: Walk[]
  running: boolean
}
