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
  /** What the sweep found; null where it was not the sweep that expired it. */
  expired_from: LicenceStatus | null
  expired_from_reason: SuspensionReason | null
}

/** What a transition may depend on beside the licence's own standing. */
export interface Circumstances {
  plan?: PlanStatus
  /** The licence's end changes with it. */
  endMoves?: boolean
  /** The licence's end, as it will be, is still to come. */
  endAhead?: boolean
}

interface Facts extends Circumstances {
  suspendedFor: SuspensionReason | null
  /** The sweep has expired it, and that is not final yet. */
  swept: boolean
}

export interface Transition {
  from: readonly LicenceStatus[]
  /** Holds only where these facts are so. */
  where?: Partial<Facts>
  /** `former` is what the sweep found. */
  to: LicenceStatus | 'same' | 'former'
  /** Why the licence is suspended from then on. */
  reason?: SuspensionReason
  /**
   * Whether what the licence was is remembered, for a renewal that arrives late. A transition to another status
   * forgets it unless it says otherwise; `same` keeps it unless it says otherwise.
   */
  former?: 'remembered' | 'forgotten'
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
const planChanged = { emits: 'licencePlanChanged', history: 'plan_changed' } as const

/**
 * Interface 3.1 as a table, with what decisions 4 and 7 add: all that moves a licence. Of a cause's transitions the
 * first counts whose `from` and `where` the licence fits. Where none fits, a person is refused and all else changes
 * nothing.
 */
export const lifecycle = {
  // The vendor's verbs.
  suspend: [{ ...suspended, reason: 'manual' }],
  reactivate: [{ ...reactivated, where: { plan: 'active' } }],
  // Interface 3.1: there is no un-revoke.
  revoke: [revoked, { from: ['revoked'], to: 'same' }],
  retire: [retired, { from: ['retired'], to: 'same' }],

  // What happens around a licence.
  planArchived: [{ ...suspended, reason: 'plan_archived' }],
  expiryPassed: [{ ...expired, former: 'remembered' }],

  // Payments that fail, are disputed, given back or end.
  paymentsFailed: [{ ...suspended, reason: 'payment_failed' }],
  inquiryOpened: [{ ...suspended, reason: 'dispute_inquiry' }],
  inquiryClosed: [{ ...reactivated, where: { suspendedFor: 'dispute_inquiry', plan: 'active' } }],
  refunded: [revoked],
  partlyRefunded: [downgraded],
  // An expiry by the sweep becomes final.
  subscriptionCancelled: [expired, { from: ['expired'], to: 'same', former: 'forgotten' }],

  // A payment of a customer who holds the licence, which takes its plan.
  paymentLanded: [
    { from: ['expired', 'downgraded'], to: 'active', ...planChanged },
    { from: ['suspended'], where: { suspendedFor: 'payment_failed' }, to: 'active', ...planChanged },
    { from: ['active', 'suspended'], to: 'same', ...planChanged },
  ],
  // A later invoice of the same subscription is paid, after its period's end: what the sweep did in between is undone.
  renewed: [
    { from: ['expired'], where: { swept: true, endAhead: true }, to: 'former', history: 'renewed' },
    {
      from: ['active', 'suspended', 'expired', 'downgraded'],
      where: { endMoves: true },
      to: 'same',
      history: 'renewed',
    },
  ],
  // What follows a renewal. No licence is active on a retired plan.
  paymentsMadeGood: [
    { ...reactivated, where: { suspendedFor: 'payment_failed', plan: 'active' } },
    {
      from: ['suspended'],
      where: { suspendedFor: 'payment_failed', plan: 'retired' },
      to: 'suspended',
      reason: 'plan_archived',
      history: 'suspended',
    },
    { ...suspended, where: { plan: 'retired' }, reason: 'plan_archived' },
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

/** Statuses in which a customer holds a licence: a payment lands on it. */
export const held: readonly LicenceStatus[] = [
  ...new Set(lifecycle.paymentLanded.flatMap<LicenceStatus>(({ from }) => from)),
]

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
    swept: licence.expired_from !== null,
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
      return former === 'forgotten' ? { ...licence, ...forgotten } : licence
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
