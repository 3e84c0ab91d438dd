import type { FeedRead, Walk } from '../outcome.ts'
import type { StormStack } from '../stack/storm-stack.ts'
import type { Vendor } from '../stack/vendors.ts'
import type { Caller } from './caller.ts'

/** The vendor's data that its clients know from answers. */
export interface Shop extends Vendor {
  /** A plan that is never archived. */
  steadyPlanId: string
  /** Plans that are archived and restored during the storm, each by one client. */
  changingPlanIds: string[]
  oneOffPlanId: string
  subscriptionPlanId: string
  licences: { id: string; key: string }[]
  legacyKeys: string[]
  activations: { id: string; token: string; licenceId: string }[]
  definitions: string[]
  endpoints: string[]
  keys: string[]
  sessions: Bought[]
}

/** A checkout, with its state at the processor as far as the client knows. */
export interface Bought {
  /** The processor's id; its last path segment of the session's url. */
  checkoutRef: string
  mode: 'payment' | 'subscription'
  paid: boolean
  subscription: string | undefined
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
