import { closedSets } from '@licensing/proto/closed-sets'
import type {
  HistoryType,
  LicenceStatus,
  LicenceVerb,
  PlanStatus,
  SuspensionReason,
} from '@licensing/proto/closed-sets'

interface StatusRules {
  /** The entitlements of installed products: the values of the snapshot, the definitions' defaults, or none. */
  grants: 'values' | 'defaults' | 'nothing'
  /** The licence is permanently over: it can only be retired. */
  isOver: boolean
  /** A payment of the customer lands on the licence instead of making a new one. */
  takesPayments: boolean
  /** The licence expires when its end passes or its subscription is cancelled. */
  canExpire: boolean
  canBeRevoked: boolean
}

/** What each status means. Every list of statuses is derived from this table. */
export const statuses = {
  active: { grants: 'values', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  suspended: { grants: 'nothing', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  expired: { grants: 'nothing', isOver: false, takesPayments: true, canExpire: false, canBeRevoked: true },
  downgraded: { grants: 'defaults', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  revoked: { grants: 'nothing', isOver: true, takesPayments: false, canExpire: false, canBeRevoked: false },
  retired: { grants: 'nothing', isOver: true, takesPayments: false, canExpire: false, canBeRevoked: false },
} as const satisfies Record<LicenceStatus, StatusRules>

const all = Object.keys(statuses) as LicenceStatus[]

/** Statuses in which a customer holds a licence: a payment lands on it. */
export const held = all.filter((status) => statuses[status].takesPayments)

/** Statuses that end when the licence's end passes. */
export const expirable = all.filter((status) => statuses[status].canExpire)

/** The status of a licence, and what it depends on. */
export interface Standing {
  status: LicenceStatus
  status_reason: SuspensionReason | null
  /** The status before the licence expired. */
  expired_from: LicenceStatus | null
  expired_from_reason: SuspensionReason | null
}

/** Conditions of a transition that are not part of the licence's standing. */
export interface Circumstances {
  /** The status of the plan that the licence has after the transition. */
  plan?: PlanStatus
  /** The transition changes the licence's plan. */
  planDiffers?: boolean
  /** The transition changes the licence's end. */
  endMoves?: boolean
  /** The purchase that the licence rests on stands: it has not ended, and was not refunded or cancelled. */
  stands?: boolean
  /** The purchases no longer require a status other than active. */
  clears?: boolean
  /** The purchases no longer require a suspension for an inquiry. */
  lifts?: boolean
  /** The licence has the status that its purchases required, and a late event changed which status they require. */
  overtaken?: boolean
}

interface Facts extends Circumstances {
  suspendedFor: SuspensionReason | null
  /** The status before the licence expired. */
  was: LicenceStatus | null
  wasFor: SuspensionReason | null
}

export interface Transition {
  from: readonly LicenceStatus[]
  /** The transition applies only if all these facts are true. */
  where?: Partial<Facts>
  /** `former` is the status before the licence expired. */
  to: LicenceStatus | 'same' | 'former'
  /** The reason, if the transition suspends the licence. */
  reason?: SuspensionReason
  /** Stores the current status as `expired_from`. Other transitions to a new status clear that column. */
  former?: 'remembered'
  /** Payment problems of its purchases before this transition no longer count. */
  ignoresEarlierPaymentProblems?: true
  emits?: LicenceEvent
  /** The type of the history entry. A transition without one is not visible to the vendor. */
  history?: HistoryType
}

/** A transition that one statement can apply to many licences: it depends only on the status and the plan. */
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
  | 'licenceEntitlementsChanged'

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
  from: all.filter((status) => statuses[status].canBeRevoked),
  to: 'revoked',
  emits: 'licenceRevoked',
  history: 'revoked',
} as const
const retired = {
  from: all.filter((status) => status !== 'retired'),
  to: 'retired',
  emits: 'licenceRetired',
  history: 'retired',
} as const
const downgraded = {
  from: held.filter((status) => status !== 'downgraded'),
  to: 'downgraded',
  emits: 'licenceDowngraded',
  history: 'downgraded',
} as const
const expired = {
  from: expirable,
  to: 'expired',
  emits: 'licenceExpired',
  history: 'expired',
} as const
const returned = { from: ['expired'], to: 'former', history: 'renewed' } as const
const planChanged = { emits: 'licencePlanChanged', history: 'plan_changed' } as const
// The vendor has already been notified of the suspension.
const silently = { from: ['suspended'], to: 'suspended', history: 'suspended' } as const
const silentlyArchived = { ...silently, reason: 'plan_archived' } as const

const clear = { clears: true, plan: 'active' } as const
const clearOnRetired = { clears: true, plan: 'retired' } as const
const otherPlan = { planDiffers: true } as const
const unpaid = { suspendedFor: 'payment_failed' } as const
const inquired = { suspendedFor: 'dispute_inquiry' } as const

/**
 * Every change of a licence's status: interface 3.1 with the additions of decisions 4 and 7. The first transition of a
 * cause whose `from` and `where` match the licence applies. If none matches, a vendor's request gets 409; any other cause
 * is ignored.
 */
export const lifecycle = {
  // The vendor's verbs.
  suspend: [{ ...suspended, reason: 'manual' }],
  reactivate: [{ ...reactivated, where: { plan: 'active' }, ignoresEarlierPaymentProblems: true }],
  // Interface 3.1: there is no un-revoke.
  revoke: [revoked, { from: ['revoked'], to: 'same' }],
  retire: [retired, { from: ['retired'], to: 'same' }],

  // The vendor sets a later end of an expired licence: the status before it expired returns.
  extended: [
    {
      ...reactivated,
      from: ['expired'],
      where: { was: null, plan: 'active' },
      ignoresEarlierPaymentProblems: true,
    },
    {
      ...reactivated,
      from: ['expired'],
      where: { was: 'active', plan: 'active' },
      ignoresEarlierPaymentProblems: true,
    },
    { from: ['expired'], where: { was: 'downgraded' }, to: 'former' },
    { from: ['expired'], where: { was: 'suspended' }, to: 'former' },
  ],

  // Causes other than the vendor and payments.
  plan_archived: [{ ...suspended, reason: 'plan_archived' }],
  expiry_passed: [{ ...expired, former: 'remembered' }],

  // Payments that fail, are disputed, refunded or end.
  payment_failed: [
    { ...suspended, reason: 'payment_failed' },
    { ...suspended, from: ['expired', 'downgraded'], where: { overtaken: true }, reason: 'payment_failed' },
    { ...silently, where: { overtaken: true, ...inquired }, reason: 'payment_failed' },
  ],
  inquiry_opened: [
    { ...suspended, reason: 'dispute_inquiry' },
    { ...suspended, from: ['expired', 'downgraded'], where: { overtaken: true }, reason: 'dispute_inquiry' },
    { ...silently, where: { overtaken: true, ...unpaid }, reason: 'dispute_inquiry' },
  ],
  inquiry_closed: [
    { ...reactivated, where: { ...inquired, plan: 'active' } },
    // Only the archive keeps it suspended: after a restore the vendor reactivates it like the other licences of the plan.
    { ...silentlyArchived, where: { ...inquired, plan: 'retired' } },
  ],
  refunded: [revoked],
  charged_back: [revoked],
  partially_refunded: [downgraded],
  canceled: [{ ...expired, former: 'remembered' }],

  // A purchase of a customer who holds the licence lands; the licence takes its plan where it is the latest.
  paid: [
    { from: ['expired'], where: { ...clear, stands: true }, to: 'active', ...planChanged },
    { from: ['downgraded'], where: clear, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...unpaid }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...inquired, lifts: true }, to: 'active', ...planChanged },
    { from: held, to: 'same', ...planChanged },
  ],
  // The purchase that the licence rested on has fallen, and the latest that stands takes over; or one stands again.
  purchase_replaced: [
    { from: ['expired'], where: { ...clear, ...otherPlan, stands: true }, to: 'active', ...planChanged },
    { from: ['downgraded'], where: { ...clear, ...otherPlan }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...otherPlan, ...unpaid }, to: 'active', ...planChanged },
    { from: ['suspended'], where: { ...clear, ...otherPlan, ...inquired }, to: 'active', ...planChanged },
    { from: held, where: otherPlan, to: 'same', ...planChanged },
    { ...reactivated, from: ['expired'], where: { ...clear, stands: true } },
    { ...reactivated, from: ['downgraded'], where: clear },
    { ...reactivated, where: { ...clear, ...unpaid } },
    { ...reactivated, where: { ...clear, ...inquired } },
    { from: held, where: { endMoves: true }, to: 'same', history: 'changed' },
  ],
  // A later invoice of the subscription that the licence rests on is paid. What has expired meanwhile returns, to what
  // somebody else had suspended it for, too.
  renewed: [
    { ...returned, where: { stands: true, wasFor: 'manual' } },
    { ...returned, where: { stands: true, wasFor: 'plan_archived' } },
    { ...returned, where: { stands: true, was: 'suspended', clears: false } },
    { ...returned, where: { stands: true, was: 'downgraded', plan: 'retired' } },
    { ...returned, where: { stands: true, clears: false, plan: 'active' } },
    { from: held, where: { endMoves: true }, to: 'same', history: 'renewed' },
  ],
  price_changed: [{ from: held, where: otherPlan, to: 'same', ...planChanged }],
  // What follows a renewal.
  payment_recovered: [
    { ...reactivated, from: ['expired'], where: { ...clear, stands: true } },
    { ...reactivated, from: ['downgraded'], where: clear },
    { ...reactivated, where: { ...clear, ...unpaid } },
  ],
  // What follows wherever a licence has come to a plan: none is active on a retired one.
  moved_to_retired_plan: [
    { ...suspended, where: { plan: 'retired' }, reason: 'plan_archived' },
    { ...suspended, from: ['expired'], where: { ...clearOnRetired, stands: true }, reason: 'plan_archived' },
    { ...silentlyArchived, where: { ...clearOnRetired, ...unpaid } },
  ],
  // Another purchase stands in for one that was downgraded or in dispute, and its plan is retired.
  replaced_on_retired_plan: [
    { ...suspended, from: ['downgraded'], where: clearOnRetired, reason: 'plan_archived' },
    { ...silentlyArchived, where: { ...clearOnRetired, ...inquired } },
  ],
} as const satisfies Record<string, readonly [Transition, ...Transition[]]>

export type Cause = keyof typeof lifecycle

/** The status of a new licence, and its first history entry, by the way in which it is made. */
export const initialStatus = {
  issued: { status: 'active', history: 'issued' },
  imported: { status: 'active', history: 'imported' },
  bought: { status: 'active', history: 'created' },
  'on trial': { status: 'active', history: 'trial_started' },
} as const satisfies Record<string, { status: LicenceStatus; history: HistoryType }>

/** The verbs that would change a licence now. */
export function allowedVerbs(status: LicenceStatus, plan: PlanStatus): LicenceVerb[] {
  return closedSets.licenceVerb.filter((verb) => {
    const move: Move = lifecycle[verb][0]
    return move.from.includes(status) && (move.where?.plan ?? plan) === plan
  })
}

/** The transition that a cause has for a licence; undefined if none matches. */
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

/** The standing of a licence after a transition. */
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

/** A transition that matched. */
export interface Step {
  transition: Transition
  from: LicenceStatus
  to: LicenceStatus
}

/** Applies causes one after the other: the transitions that matched, and the standing after the last. */
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
