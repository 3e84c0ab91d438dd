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
  /** A payment of the customer changes the licence; otherwise it creates another one. */
  takesPayments: boolean
  /** The licence expires when its end passes or its subscription is cancelled. */
  canExpire: boolean
  canBeRevoked: boolean
}

/** The properties of each status. Every list of statuses is derived from this table. */
export const statuses = {
  active: { grants: 'values', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  suspended: { grants: 'nothing', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  expired: { grants: 'nothing', isOver: false, takesPayments: true, canExpire: false, canBeRevoked: true },
  downgraded: { grants: 'defaults', isOver: false, takesPayments: true, canExpire: true, canBeRevoked: true },
  revoked: { grants: 'nothing', isOver: true, takesPayments: false, canExpire: false, canBeRevoked: false },
  retired: { grants: 'nothing', isOver: true, takesPayments: false, canExpire: false, canBeRevoked: false },
} as const satisfies Record<LicenceStatus, StatusRules>

const all = Object.keys(statuses) as LicenceStatus[]

/** Statuses in which a payment of the customer changes the licence. */
export const payable = all.filter((status) => statuses[status].takesPayments)

/** Statuses that end when the licence's end passes. */
export const expirable = all.filter((status) => statuses[status].canExpire)

/** The status of a licence, and what it depends on. */
export interface LicenceState {
  status: LicenceStatus
  status_reason: SuspensionReason | null
  /** The status before the licence expired. */
  expired_from: LicenceStatus | null
  expired_from_reason: SuspensionReason | null
}

/** Conditions of a transition beside the licence's state. */
export interface TransitionConditions {
  /** The status of the plan that the licence has after the transition. */
  plan?: PlanStatus
  /** The transition changes the licence's plan. */
  planDiffers?: boolean
  /** The transition changes the licence's end. */
  endMoves?: boolean
  /** The purchase that governs the licence has not ended, and was not refunded or cancelled. */
  valid?: boolean
  /** The purchases no longer prevent the licence from being active. */
  allowsActive?: boolean
  /** The licence has the status that its purchases required until an event became known late. */
  outdated?: boolean
}

interface Facts extends TransitionConditions {
  suspendedFor: SuspensionReason | null
  /** The status before the licence expired. */
  expiredFrom: LicenceStatus | null
  expiredFromReason: SuspensionReason | null
}

export interface Transition {
  from: readonly LicenceStatus[]
  /** The transition applies only if all these facts are true. */
  where?: Partial<Facts>
  /** `former` is the status before the licence expired. */
  to: LicenceStatus | 'same' | 'former'
  /** The reason, if the transition suspends the licence. */
  reason?: SuspensionReason
  /** Stores the current status as `expired_from`. All other transitions to a new status clear that column. */
  storesStatus?: true
  /** Payment problems of its purchases before this transition no longer count. */
  ignoresEarlierPaymentProblems?: true
  emits?: LicenceEvent
  /** The type of the history entry. A transition without one is not visible to the vendor. */
  history?: HistoryType
}

/** A transition that one statement can apply to many licences: it depends only on the status and the plan. */
export type BulkTransition = Transition & {
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
const activeByVendor = { ...reactivated, ignoresEarlierPaymentProblems: true } as const
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
  from: payable.filter((status) => status !== 'downgraded'),
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
const activated = { to: 'active', ...planChanged } as const
// If the licence is suspended already, only the reason changes, and no event is sent.
const reasonChanged = { from: ['suspended'], to: 'suspended', history: 'suspended' } as const
const reasonChangedToArchived = { ...reasonChanged, reason: 'plan_archived' } as const

const allowed = { allowsActive: true, plan: 'active' } as const
const allowedOnRetired = { allowsActive: true, plan: 'retired' } as const
const otherPlan = { planDiffers: true } as const
const unpaid = { suspendedFor: 'payment_failed' } as const
const inquired = { suspendedFor: 'dispute_inquiry' } as const

/**
 * Every change of a licence's status (docs/guides/lifecycle.md, "Transitions", is made from it). The first transition of a
 * cause whose `from` and `where` match the licence applies. If none matches, a vendor's request gets 409; any other cause
 * is ignored.
 */
export const lifecycle = {
  // The vendor's verbs.
  suspend: [{ ...suspended, reason: 'manual' }],
  reactivate: [{ ...activeByVendor, where: { plan: 'active' } }],
  // A revocation cannot be undone (docs/guides/lifecycle.md, "Transitions").
  revoke: [revoked, { from: ['revoked'], to: 'same' }],
  retire: [retired, { from: ['retired'], to: 'same' }],

  // The vendor sets a later end of an expired licence: the status before it expired returns.
  extended: [
    { ...activeByVendor, from: ['expired'], where: { expiredFrom: null, plan: 'active' } },
    { ...activeByVendor, from: ['expired'], where: { expiredFrom: 'active', plan: 'active' } },
    { from: ['expired'], where: { expiredFrom: 'downgraded' }, to: 'former' },
    { from: ['expired'], where: { expiredFrom: 'suspended' }, to: 'former' },
  ],

  // Causes other than the vendor and payments.
  plan_archived: [{ ...suspended, reason: 'plan_archived' }],
  expiry_passed: [{ ...expired, storesStatus: true }],

  // Payments that fail, are disputed, refunded or end.
  payment_failed: [
    { ...suspended, reason: 'payment_failed' },
    { ...suspended, from: ['expired', 'downgraded'], where: { outdated: true }, reason: 'payment_failed' },
    { ...reasonChanged, where: { outdated: true, ...inquired }, reason: 'payment_failed' },
  ],
  inquiry_opened: [
    { ...suspended, reason: 'dispute_inquiry' },
    { ...suspended, from: ['expired', 'downgraded'], where: { outdated: true }, reason: 'dispute_inquiry' },
    { ...reasonChanged, where: { outdated: true, ...unpaid }, reason: 'dispute_inquiry' },
  ],
  inquiry_closed: [
    { ...reactivated, where: { ...inquired, plan: 'active' } },
    // The licence stays suspended only because of the archive: after a restore the vendor reactivates it like the
    // others.
    { ...reasonChangedToArchived, where: { ...inquired, plan: 'retired' } },
  ],
  refunded: [revoked],
  partially_refunded: [downgraded],
  canceled: [{ ...expired, storesStatus: true }],

  // The customer pays for another purchase. If it is the latest valid one, the licence gets its plan.
  paid: [
    { ...activated, from: ['expired'], where: { ...allowed, valid: true } },
    { ...activated, from: ['downgraded'], where: allowed },
    { ...activated, from: ['suspended'], where: { ...allowed, ...unpaid } },
    { ...activated, from: ['suspended'], where: { ...allowed, ...inquired } },
    { from: payable, to: 'same', ...planChanged },
  ],
  // Another purchase governs the licence, because its purchase is no longer valid or a later one is valid again.
  purchase_replaced: [
    { ...activated, from: ['expired'], where: { ...allowed, ...otherPlan, valid: true } },
    { ...activated, from: ['downgraded'], where: { ...allowed, ...otherPlan } },
    { ...activated, from: ['suspended'], where: { ...allowed, ...otherPlan, ...unpaid } },
    { ...activated, from: ['suspended'], where: { ...allowed, ...otherPlan, ...inquired } },
    { from: payable, where: otherPlan, to: 'same', ...planChanged },
    { ...reactivated, from: ['expired'], where: { ...allowed, valid: true } },
    { ...reactivated, from: ['downgraded'], where: allowed },
    { ...reactivated, where: { ...allowed, ...unpaid } },
    { ...reactivated, where: { ...allowed, ...inquired } },
    { from: payable, where: { endMoves: true }, to: 'same', history: 'changed' },
  ],
  // A later invoice of the subscription that governs the licence is paid. If the licence expired meanwhile, it gets the
  // status before that, also a suspension for another reason.
  renewed: [
    { ...returned, where: { valid: true, expiredFromReason: 'manual' } },
    { ...returned, where: { valid: true, expiredFromReason: 'plan_archived' } },
    { ...returned, where: { valid: true, expiredFrom: 'suspended', allowsActive: false } },
    { ...returned, where: { valid: true, expiredFrom: 'downgraded', plan: 'retired' } },
    { ...returned, where: { valid: true, allowsActive: false, plan: 'active' } },
    { from: payable, where: { endMoves: true }, to: 'same', history: 'renewed' },
  ],
  price_changed: [{ from: payable, where: otherPlan, to: 'same', ...planChanged }],
  // Follows `renewed`; also the cause if a problem other than an inquiry turns out to be over.
  payment_recovered: [
    { ...reactivated, from: ['expired'], where: { ...allowed, valid: true } },
    { ...reactivated, from: ['downgraded'], where: allowed },
    { ...reactivated, where: { ...allowed, ...unpaid } },
  ],
  // Follows every cause that may change the plan: no licence is active on a retired plan.
  moved_to_retired_plan: [
    { ...suspended, where: { plan: 'retired' }, reason: 'plan_archived' },
    { ...suspended, from: ['expired'], where: { ...allowedOnRetired, valid: true }, reason: 'plan_archived' },
    { ...reasonChangedToArchived, where: { ...allowedOnRetired, ...unpaid } },
  ],
  // Another purchase replaces one that was partially refunded or in dispute, and its plan is retired.
  replaced_on_retired_plan: [
    { ...suspended, from: ['downgraded'], where: allowedOnRetired, reason: 'plan_archived' },
    { ...reasonChangedToArchived, where: { ...allowedOnRetired, ...inquired } },
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
    const transition: BulkTransition = lifecycle[verb][0]
    return transition.from.includes(status) && (transition.where?.plan ?? plan) === plan
  })
}

/** The transition that a cause has for a licence; undefined if none matches. */
export function transitionOf(
  cause: Cause,
  licence: LicenceState,
  conditions: TransitionConditions,
): Transition | undefined {
  const facts: Facts = {
    ...conditions,
    suspendedFor: licence.status_reason,
    expiredFrom: licence.expired_from,
    expiredFromReason: licence.expired_from_reason,
  }
  const transitions: readonly Transition[] = lifecycle[cause]
  return transitions.find(({ from, where = {} }) => {
    const names = Object.keys(where) as (keyof Facts)[]
    return from.includes(licence.status) && names.every((fact) => where[fact] === facts[fact])
  })
}

function stateAfter({ to, reason, storesStatus }: Transition, licence: LicenceState): LicenceState {
  const notExpired = { expired_from: null, expired_from_reason: null }
  switch (to) {
    case 'same':
      return licence
    case 'former':
      return {
        status: licence.expired_from ?? licence.status,
        status_reason: licence.expired_from_reason,
        ...notExpired,
      }
    default:
      return {
        status: to,
        status_reason: reason ?? null,
        ...(storesStatus
          ? { expired_from: licence.status, expired_from_reason: licence.status_reason }
          : notExpired),
      }
  }
}

/** A transition that matched. */
export interface AppliedTransition {
  transition: Transition
  from: LicenceStatus
  to: LicenceStatus
}

/** Applies causes one after the other. Returns the transitions that matched, and the state after the last one. */
export function applyCauses(
  causes: readonly Cause[],
  licence: LicenceState,
  conditions: TransitionConditions,
): { state: LicenceState; steps: AppliedTransition[] } {
  let state = licence
  const steps: AppliedTransition[] = []
  for (const cause of causes) {
    const transition = transitionOf(cause, state, conditions)
    if (!transition) continue
    const after = stateAfter(transition, state)
    steps.push({ transition, from: state.status, to: after.status })
    state = after
  }
  return { state, steps }
}
