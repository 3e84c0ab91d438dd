import type { Outcome, Sent } from '../outcome.ts'
import type { StormStack, Vendor } from '../stack.ts'

/** The vendor's data that its clients know from answers. */
export interface Shop extends Vendor {
  /** A plan that is never archived. */
  steadyPlanId: string
  /** Plans that are archived and restored during the storm, each by one client. */
  changingPlanIds: string[]
  planIds: Record<'payment' | 'subscription', string>
  licences: { id: string; key: string }[]
  legacyKeys: string[]
  activations: { id: string; token: string; licenceId: string }[]
  definitions: string[]
  endpoints: string[]
  keys: string[]
  sessions: Bought[]
  sales: Sold[]
}

/** A sale of another shop. */
export interface Sold {
  saleId: string
  /** The last renewal that was acknowledged. */
  renewalId: string | undefined
  over: boolean
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

export interface World extends Pick<Outcome, 'feedReads' | 'walks'> {
  stack: StormStack
  shops: Shop[]
  /** All requests so far, with their answers. */
  sent: Sent[]
  running: boolean
}
