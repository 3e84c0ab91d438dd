import { closedSets } from '@licensing/proto/closed-sets'
import type {
  HistoryType,
  LicenceStatus,
  LicenceVerb,
  PlanStatus,
  SuspensionReason,
} from '@licensing/proto/closed-sets'

/** What transitions look at in a licence, and change. */
export interface Standing {
  status: LicenceStatus
  status_reason: SuspensionReason | null
  /** What it was before it expired. */
  expired_from: LicenceStatus | null
  expired_from_reason: SuspensionReason | null
}

/** What a transition may depend on beside the licence's own standing. */
export interface Circumstances {
  /** The status of the plan that the licence is on from then on. */
  plan?: PlanStatus
  /** The licence's plan changes with it. */
  planDiffers?: boolean
  /** The licence's end changes with it. */
  endMoves?: boolean
  /** The purchase that it rests on stands. */
  stands?: boolean
  /** Its purchases call for nothing any more that keeps it from being active. */
  clears?: boolean
  /** An inquiry had called for its suspension, and no longer does. */
  lifts?: boolean
  /** It is as its purchases had called for, and they call for something else: news that came late. */
  overtaken?: boolean
}

interface Facts extends Circumstances {
  suspendedFor: SuspensionReason | null
  /** What it was before it expired. */
  was: LicenceStatus | null
  wasFor: SuspensionReason | null
}

export interface Transition {
  from: readonly LicenceStatus[]
  /** Holds only where these facts are so. */
  where?: Partial<Facts>
  /** `former` is what it was before it expired. */
  to: LicenceStatus | 'same' | 'former'
  /** Why the licence is suspended from then on. */
  reason?: SuspensionReason
  /** Whether what the licence was is remembered; else a transition to another status forgets it. */
  former?: 'remembered'
  /** What its purchases had called for until then no longer counts. */
  pardons?: true
  emits?: LicenceEvent
  /** Its entry in the licence's history; without one it cannot be seen from outside. */
  history?: HistoryType
}

/** A transition that one statement can make of many licences: it asks no facts of the single licence. */
export type Move = Transition & {
  where?: { plan: PlanStatus }
  to: LicenceStatus
  emits: LicenceEvent
  history: HistoryType
}

export type LicenceEvent =
  | 'licencePlanChanged'
  | 'licenceSuspended'
  | 'licenceReactivated'
  | 'licenceRevoked'
  | 'licenceExpired'
  | 'licenceRetired'
  | 'licenceDowngraded'

const suspended = {
  from: ['active'],
  to: 'suspended',
  emits: 'licenceSuspended',
  history: 'suspended',
} as const
const reactivated = {
  from: ['suspended'],
  to: 'active',
  emits: 'licenceReactivated',
  history: 'reactivated',
} as const
const revoked = {
  from: ['active', 'suspended', 'expired', 'downgraded'],
  to: 'revoked',
  emits: 'licenceRevoked',
  history: 'revoked',
} as const
const retired = {
  from: ['active', 'suspended', 'revoked', 'expired', 'downgraded'],
  to: 'retired',
  emits: 'licenceRetired',
  history: 'retired',
} as const
const downgraded = {
  from: ['active', 'suspended', 'expired'],
  to: 'downgraded',
  emits: 'licenceDowngraded',
  history: 'downgraded',
} as const
const expired = {
  from: ['active', 'suspended', 'downgraded'],
  to: 'expired',
  emits: 'licenceExpired',
  history: 'expired',
} as const
const returned = { from: ['expired'], to: 'former', history: 'renewed' } as const
const planChanged = { emits: 'licencePlanChanged', history: 'plan_changed' } as const
// The vendor has been sent its suspension before.
const silently = { from: ['suspended'], to: 'suspended', history: 'suspended' } as const
const silentlyArchived = { ...silently, reason: 'plan_archived' } as const

/** Statuses in which a customer holds a licence: a payment lands on it. */
const holding = ['active', 'suspended', 'expired', 'downgraded'] as const
const clear = { clears: true, plan: 'active' } as const
const clearOnRetired = { clears: true, plan: 'retired' } as const
const otherPlan = { planDiffers: true } as const
const unpaid = { suspendedFor: 'payment_failed' } as const
const inquired = { suspendedFor: 'dispute_inquiry' } as const

/**
 * Interface 3.1 as a table, with what decisions 4 and 7 add: all that moves a licence. Of a cause's transitions the
 * first counts whose `from` and `where` the licence fits. Where none fits, a person is refused and all else changes
 * nothing.
 */
export const lifecycle = {
  // The vendor's verbs.
  suspend: [{ ...suspended, reason: 'manual' }],
  reactivate: [{ ...reactivated, where: { plan: 'active' }, pardons: true }],
  // Interface 3.1: there is no un-revoke.
  revoke: [revoked, { from: ['revoked'], to: 'same' }],
  retire: [retired, { from: ['retired'], to: 'same' }],

  // The vendor moves the end of an expired licence: it is again what it was before it expired.
  extended: [
    { ...reactivated, from: ['expired'], where: { was: null, plan: 'active' }, pardons: true },
    { ...reactivated, from: ['expired'], where: { was: 'active', plan: 'active' }, pardons: true },
    { from: ['expired'], where: { was: 'downgraded' }, to: 'former' },
    { from: ['expired'], where: { was: 'suspended' }, to: 'former' },
  ],

  // What happens around a licence.
  planArchived: [{ ...suspended, reason: 'plan_archived' }],
  expiryPassed: [{ ...expired, former: 'remembered' }],

  // Payments that fail, are disputed, given back or end.
  paymentsFailed: [
    { ...suspended, reason: 'payment_failed' },
    { ...suspended, from: ['expired', 'downgraded'], where: { overtaken: true }, reason: 'payment_failed' },
    { ...silently, where: { overtaken: true, ...inquired }, reason: 'payment_failed' },
  ],
  inquiryOpened: [
    { ...suspended, reason: 'dispute_inquiry' },
    { ...suspended, from: ['expired', 'downgraded'], where: { overtaken: true }, reason: 'dispute_inquiry' },
    { ...silently, where: { overtaken: true, ...unpaid }, reason: 'dispute_inquiry' },
  ],
  inquiryClosed: [
    { ...reactivated, where: { ...inquired, plan: 'active' } },
    // Nothing but the archive keeps it suspended: after a restore the vendor reactivates it with the others.
    { ...silentlyArchived, where: { ...inquired, plan: 'retired' } },
  ],
  refunded: [revoked],
  partlyRefunded: [downgraded],
  subscriptionCancelled: [{ ...expired, former: 'remembered' }],

  // A purchase of a customer who holds the licence lands; the licence takes its plan where it is the latest.
  purchaseLanded: [
    { from: ['expired'], where: { ...clear, stands: true }, to: 'active', ...planChanged },
    { from: ['downgraded'], where: clear, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...unpaid }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...inquired, lifts: true }, to: 'active', ...planChanged },
    { from: holding, to: 'same', ...planChanged },
  ],
  // The purchase that the licence rested on has fallen, and the latest that stands takes over; or one stands again.
  purchaseTakesOver: [
    { from: ['expired'], where: { ...clear, ...otherPlan, stands: true }, to: 'active', ...planChanged },
    { from: ['downgraded'], where: { ...clear, ...otherPlan }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...otherPlan, ...unpaid }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...otherPlan, ...inquired }, to: 'active', ...planChanged },
    { from: holding, where: otherPlan, to: 'same', ...planChanged },
    { ...reactivated, from: ['expired'], where: { ...clear, stands: true } },
    { ...reactivated, from: ['downgraded'], where: clear },
    { ...reactivated, where: { ...clear, ...unpaid } },
    { ...reactivated, where: { ...clear, ...inquired } },
    { from: holding, where: { endMoves: true }, to: 'same', history: 'changed' },
  ],
  // A later invoice of the subscription that the licence rests on is paid. What has expired meanwhile returns, to what
  // somebody else had suspended it for, too.
  renewed: [
    { ...returned, where: { stands: true, wasFor: 'manual' } },
    { ...returned, where: { stands: true, wasFor: 'plan_archived' } },
    { ...returned, where: { stands: true, was: 'suspended', clears: false } },
    { ...returned, where: { stands: true, was: 'downgraded', plan: 'retired' } },
    { ...returned, where: { stands: true, clears: false, plan: 'active' } },
    { from: holding, where: { endMoves: true }, to: 'same', history: 'renewed' },
  ],
  planFollowsPrice: [{ from: holding, where: otherPlan, to: 'same', ...planChanged }],
  // What follows a renewal.
  paymentsMadeGood: [
    { ...reactivated, from: ['expired'], where: { ...clear, stands: true } },
    { ...reactivated, from: ['downgraded'], where: clear },
    { ...reactivated, where: { ...clear, ...unpaid } },
  ],
  // What follows wherever a licence has come to a plan: none is active on a retired one.
  cameToRetiredPlan: [
    { ...suspended, where: { plan: 'retired' }, reason: 'plan_archived' },
    { ...suspended, from: ['expired'], where: { ...clearOnRetired, stands: true }, reason: 'plan_archived' },
    { ...silentlyArchived, where: { ...clearOnRetired, ...unpaid } },
  ],
  // Another purchase stands in for one that was downgraded or in dispute, and its plan is retired.
  tookOverOnRetiredPlan: [
    { ...suspended, from: ['downgraded'], where: clearOnRetired, reason: 'plan_archived' },
    { ...silentlyArchived, where: { ...clearOnRetired, ...inquired } },
  ],
} as const satisfies Record<string, readonly [Transition, ...Transition[]]>

export type Cause = keyof typeof lifecycle

/** Where licences begin. */
export const beginnings = {
  issued: { to: 'active', history: 'issued' },
  imported: { to: 'active', history: 'imported' },
  bought: { to: 'active', history: 'created' },
} as const satisfies Record<string, { to: LicenceStatus; history: HistoryType }>

/** What a product gets of a licence in each status: its snapshot's values, the definitions' defaults, or nothing. */
export const grants = {
  active: 'values',
  downgraded: 'defaults',
  suspended: 'nothing',
  revoked: 'nothing',
  expired: 'nothing',
  retired: 'nothing',
} as const satisfies Record<LicenceStatus, 'values' | 'defaults' | 'nothing'>

/** Statuses that end when the licence's time does. */
export const expirable: readonly LicenceStatus[] = lifecycle.expiryPassed[0].from

/** The same, for queries. */
export const held: readonly LicenceStatus[] = holding

/** The verbs that would change a licence now. */
export function allowedVerbs(status: LicenceStatus, plan: PlanStatus): LicenceVerb[] {
  return closedSets.licenceVerb.filter((verb) => {
    const move: Move = lifecycle[verb][0]
    return move.from.includes(status) && (move.where?.plan ?? plan) === plan
  })
}

/** What a cause does to a licence; undefined where the table has nothing for it. */
export function transitionOf(
  cause: Cause,
  licence: Standing,
  circumstances: Circumstances,
): Transition | undefined {
  const facts: Facts = {
    ...circumstances,
    suspendedFor: licence.status_reason,
    was: licence.expired_from,
    wasFor: licence.expired_from_reason,
  }
  const transitions: readonly Transition[] = lifecycle[cause]
  return transitions.find(({ from, where = {} }) => {
    const asked = Object.keys(where) as (keyof Facts)[]
    return from.includes(licence.status) && asked.every((fact) => where[fact] === facts[fact])
  })
}

/** How a licence stands after a transition. */
function standingAfter({ to, reason, former }: Transition, licence: Standing): Standing {
  const forgotten = { expired_from: null, expired_from_reason: null }
  switch (to) {
    case 'same':
      return licence
    case 'former':
      return {
        status: licence.expired_from ?? licence.status,
        status_reason: licence.expired_from_reason,
        ...forgotten,
      }
    default:
      return {
        status: to,
        status_reason: reason ?? null,
        ...(former === 'remembered'
          ? { expired_from: licence.status, expired_from_reason: licence.status_reason }
          : forgotten),
      }
  }
}

/** A transition that a licence has made. */
export interface Step {
  transition: Transition
  from: LicenceStatus
  to: LicenceStatus
}

/** What causes do to a licence one after the other, and how it stands then. */
export function follow(
  causes: readonly Cause[],
  licence: Standing,
  circumstances: Circumstances,
): { standing: Standing; steps: Step[] } {
  let standing = licence
  const steps: Step[] = []
  for (const cause of causes) {
    const transition = transitionOf(cause, standing, circumstances)
    if (!transition) continue
    const after = standingAfter(transition, standing)
    steps.push({ transition, from: standing.status, to: after.status })
    standing = after
  }
  return { standing, steps }
}
