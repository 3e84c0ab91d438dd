import { closedSets } from '@licensing/proto/closed-sets'
import type {
  HistoryType,
  LicenceStatus,
  LicenceVerb,
  PlanStatus,
  PurchaseEffectKind,
  SuspensionReason,
} from '@licensing/proto/closed-sets'

interface StatusProperties {
  /** The entitlements of installed products: the values of the snapshot, the definitions' defaults, or none. */
  grants: 'values' | 'defaults' | 'nothing'
  /** The licence is permanently over: it can only be retired, and a payment of the customer creates another one. */
  isOver: boolean
  /** The licence expires when its end passes or its subscription is cancelled. */
  canExpire: boolean
}

/** The properties of each status. Every list of statuses is derived from this table. */
export const statuses = {
  active: { grants: 'values', isOver: false, canExpire: true },
  suspended: { grants: 'nothing', isOver: false, canExpire: true },
  expired: { grants: 'nothing', isOver: false, canExpire: false },
  downgraded: { grants: 'defaults', isOver: false, canExpire: true },
  revoked: { grants: 'nothing', isOver: true, canExpire: false },
  retired: { grants: 'nothing', isOver: true, canExpire: false },
} as const satisfies Record<LicenceStatus, StatusProperties>

const all = Object.keys(statuses) as LicenceStatus[]

/** Statuses in which a payment of the customer changes the licence. */
export const payable = all.filter((status) => !statuses[status].isOver)

/** Statuses that end when the licence's end passes. */
export const expirable = all.filter((status) => statuses[status].canExpire)

/** The word of the vendor or the plan about a licence. Its purchases do not change it, with two exceptions in `stateAfter`. */
export const holds = ['none', 'manual', 'plan_archived', 'revoked', 'retired'] as const
export type Hold = (typeof holds)[number]

/** The status that the purchases of a licence call for, as the effect that decides. Without purchases it is `paid`. */
export const purchaseStates = [
  'paid',
  'payment_failed',
  'inquiry_opened',
  'partially_refunded',
  'cancelled',
  'refunded',
] as const satisfies PurchaseEffectKind[]
export type PurchaseState = (typeof purchaseStates)[number]

/** Everything that the status of a licence depends on. */
export interface StatusInputs {
  hold: Hold
  purchase: PurchaseState
  end: Date | null
  now: Date
}

export interface ShownStatus {
  status: LicenceStatus
  /** Why it is suspended. */
  status_reason: SuspensionReason | null
}

/** A licence's status with what it follows from, as its columns. */
export type LicenceState = ShownStatus & Pick<StatusInputs, 'hold' | 'purchase'>

interface StatusRule extends Partial<Pick<StatusInputs, 'hold' | 'purchase'>> {
  /** The end has passed. */
  isPast?: true
  status: LicenceStatus
  reason?: SuspensionReason
}

/** The first rule that matches gives the status (docs/guides/lifecycle.md, "Transitions", is made from it). */
export const statusRules: readonly StatusRule[] = [
  { hold: 'retired', status: 'retired' },
  // A revocation cannot be undone (docs/guides/lifecycle.md, "Transitions").
  { hold: 'revoked', status: 'revoked' },
  { purchase: 'refunded', status: 'revoked' },
  { purchase: 'cancelled', status: 'expired' },
  { isPast: true, status: 'expired' },
  { hold: 'manual', status: 'suspended', reason: 'manual' },
  { hold: 'plan_archived', status: 'suspended', reason: 'plan_archived' },
  { purchase: 'payment_failed', status: 'suspended', reason: 'payment_failed' },
  { purchase: 'inquiry_opened', status: 'suspended', reason: 'dispute_inquiry' },
  { purchase: 'partially_refunded', status: 'downgraded' },
  { status: 'active' },
]

export function statusOf({ hold, purchase, end, now }: StatusInputs): ShownStatus {
  const isPast = end !== null && end <= now
  const { status, reason = null } = statusRules.find(
    (rule) =>
      (rule.hold ?? hold) === hold &&
      (rule.purchase ?? purchase) === purchase &&
      (rule.isPast ?? isPast) === isPast,
  )!
  return { status, status_reason: reason }
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

interface Announcement {
  history: HistoryType
  emits?: LicenceEvent
}

/** The history entry and the event of a change to each status. */
export const announcements = {
  active: { history: 'reactivated', emits: 'licenceReactivated' },
  suspended: { history: 'suspended', emits: 'licenceSuspended' },
  expired: { history: 'expired', emits: 'licenceExpired' },
  downgraded: { history: 'downgraded', emits: 'licenceDowngraded' },
  revoked: { history: 'revoked', emits: 'licenceRevoked' },
  retired: { history: 'retired', emits: 'licenceRetired' },
} as const satisfies Record<LicenceStatus, Announcement>

/** An announcement of a change that is not only a change of the status: of the plan, the end, or another field. */
export interface Lead extends Announcement {
  /** If the licence comes to one of these statuses, this announces it too. */
  carries: readonly LicenceStatus[]
}

const planChanged = { history: 'plan_changed', emits: 'licencePlanChanged' } as const

export const leads = {
  /** The customer pays for another purchase, or another purchase governs the licence. */
  sold: { ...planChanged, carries: ['active'] },
  renewed: { history: 'renewed', carries: [] },
  /** A renewal of an expired licence, for which nothing else changed. */
  returned: { history: 'renewed', carries: ['suspended', 'downgraded'] },
  repriced: { ...planChanged, carries: [] },
  /** The vendor changes fields, or another purchase with the same plan governs the licence. */
  changed: { history: 'changed', carries: [] },
  /** The vendor gives an expired licence a later end. */
  extended: { history: 'changed', carries: ['suspended', 'downgraded'] },
} as const satisfies Record<string, Lead>

export interface Step extends Announcement {
  from: LicenceStatus
  to: LicenceStatus
}

/** The history entries and events of a change, in this order. */
export function stepsOf(before: ShownStatus, after: ShownStatus, leading: readonly Lead[]): Step[] {
  const steps: Step[] = []
  let from = before.status
  for (const { carries, ...announcement } of leading) {
    const to = carries.includes(after.status) ? after.status : from
    steps.push({ ...announcement, from, to })
    from = to
  }
  const to = after.status
  if (from !== to) steps.push({ ...announcements[to], from, to })
  // If the licence was suspended before, only the reason changes, and no event is sent.
  else if (before.status === to && before.status_reason !== after.status_reason) {
    steps.push({ history: announcements[to].history, from, to })
  }
  return steps
}

/**
 * The state of a licence after its purchases, its plan or its end have changed (docs/guides/lifecycle.md, "Transitions").
 *
 * @param isReplaced another purchase governs it
 * @param plan the status of the plan that it has then
 */
export function stateAfter(
  before: LicenceState,
  {
    purchase,
    end,
    now,
    plan,
    isReplaced,
  }: Omit<StatusInputs, 'hold'> & { plan: PlanStatus; isReplaced: boolean },
): LicenceState {
  const endsHold = purchase === 'partially_refunded' || (isReplaced && before.status === 'expired')
  const hold = endsHold ? 'none' : before.hold
  const found = statusOf({ hold, purchase, end, now })
  // The sweep alone expires a licence because its end has passed. Otherwise, renewals that are reported late and end in the
  // past would expire and reactivate it one after the other.
  const shown = found.status === 'expired' && purchase !== 'cancelled' ? before : found
  // No licence is active on a retired plan: it waits for the vendor like those that the archive suspended.
  if (shown.status === 'active' && plan === 'retired') {
    return { hold: 'plan_archived', purchase, status: 'suspended', status_reason: 'plan_archived' }
  }
  return { hold, purchase, status: shown.status, status_reason: shown.status_reason }
}

/** A change that one statement makes to many licences: its result depends only on their status and their plan. */
export interface BulkChange {
  from: readonly LicenceStatus[]
  plan?: PlanStatus
  hold?: Hold
  to: LicenceStatus
  reason?: SuspensionReason
  /** Payment problems of its purchases before this change do not count any more. */
  ignoresEarlierPaymentProblems?: true
  /** The vendor can repeat it: then it changes nothing. Any other verb that does not match is refused with 409. */
  repeatable?: true
}

export const bulkChanges = {
  suspend: { from: ['active'], hold: 'manual', to: 'suspended', reason: 'manual' },
  reactivate: {
    from: ['suspended'],
    plan: 'active',
    hold: 'none',
    to: 'active',
    ignoresEarlierPaymentProblems: true,
  },
  revoke: {
    from: payable,
    hold: 'revoked',
    to: 'revoked',
    repeatable: true,
  },
  retire: {
    from: all.filter((status) => status !== 'retired'),
    hold: 'retired',
    to: 'retired',
    repeatable: true,
  },
  plan_archived: { from: ['active'], hold: 'plan_archived', to: 'suspended', reason: 'plan_archived' },
  end_passed: { from: expirable, to: 'expired' },
} as const satisfies Record<LicenceVerb | 'plan_archived' | 'end_passed', BulkChange>

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
    const change: BulkChange = bulkChanges[verb]
    return change.from.includes(status) && (change.plan ?? plan) === plan
  })
}
