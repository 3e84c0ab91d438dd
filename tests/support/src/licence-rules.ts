import { closedSets, type LicenceStatus, type SuspensionReason } from '@licensing/proto/closed-sets'

// The rules of docs/guides/lifecycle.md, "Transitions", and of docs/guides/payments.md, "Several purchases of one licence", written a second time. The tests of licensing, the acceptance tests and
// the storm compare the service with them. They intentionally share no code with the service.

/** The status of a licence, with the details that rules depend on. */
export interface Position {
  status: string
  /** The reason of a suspension. */
  reason?: string | undefined
  /** The position before the sweep expired it. */
  sweptFrom?: Position | undefined
}

export type Result =
  | { refused: string }
  | { nothing: true }
  // A payment creates a licence, because the customer has none that it applies to.
  | { newLicence: true }
  | {
      to: string
      reason?: string | undefined
      event?: string | undefined
      /** Types of history entries, each with the status it leads to. */
      history: [type: string, to: string][]
    }

const nothing: Result = { nothing: true }
const refused = (code: string): Result => ({ refused: code })
const becomes = (to: string, reason?: string): Result => {
  return { to, reason, event: `licence.${to}`, history: [[to, to]] }
}
const reactivated: Result = {
  to: 'active',
  event: 'licence.reactivated',
  history: [['reactivated', 'active']],
}
const getsPlan = (to: string, reason?: string): Result => {
  return { to, reason, event: 'licence.plan_changed', history: [['plan_changed', to]] }
}
/** A change by the vendor that sends no event. */
const changed = (to: string, reason?: string): Result => ({ to, reason, history: [['changed', to]] })
/** A renewal that sends no event. */
const renewed = (to: string, reason?: string): Result => ({ to, reason, history: [['renewed', to]] })

/** A renewal after which the licence is active again. */
const paidAgain = (from: string): Result => ({
  ...reactivated,
  history: [
    ['renewed', from],
    ['reactivated', 'active'],
  ],
})
// No licence can be active on a retired plan, and the event of the suspension was sent before.
const paidOnRetiredPlan: Result = {
  to: 'suspended',
  reason: 'plan_archived',
  history: [
    ['renewed', 'suspended'],
    ['suspended', 'suspended'],
  ],
}

const returnsToRetiredPlan: Result = {
  to: 'suspended',
  reason: 'plan_archived',
  event: 'licence.suspended',
  history: [
    ['renewed', 'expired'],
    ['suspended', 'suspended'],
  ],
}

type Name = LicenceStatus | `suspended for ${SuspensionReason}`
type Described = Name | `expired, before that ${Name}`
type Situation = Described | `${Described} on a retired plan` | 'on a retired plan'

/**
 * Results of a cause, by situation. A situation is a status, with more details if they matter; the most detailed match
 * applies. Every status needs a result, so a new status does not compile until each cause has a result for it.
 */
type Rule = Record<LicenceStatus, Result> & Partial<Record<Situation, Result>>

const conflict = refused('conflict')
/** For causes that do not change revoked and retired licences. */
const over = { revoked: nothing, retired: nothing }
/** For verbs that are refused for revoked and retired licences. */
const overRefused = { revoked: conflict, retired: conflict }
/** For causes that change only active licences. */
const ifActive = { suspended: nothing, downgraded: nothing, expired: nothing, ...over }
const changesNoStatus = { active: nothing, ...ifActive }
const revokes = {
  active: becomes('revoked'),
  suspended: becomes('revoked'),
  downgraded: becomes('revoked'),
  expired: becomes('revoked'),
  ...over,
}
const expires = {
  active: becomes('expired'),
  suspended: becomes('expired'),
  downgraded: becomes('expired'),
  expired: nothing,
  ...over,
}

export const rules = {
  suspend: {
    active: becomes('suspended', 'manual'),
    suspended: conflict,
    downgraded: conflict,
    expired: conflict,
    ...overRefused,
  },
  reactivate: {
    active: conflict,
    suspended: reactivated,
    'suspended on a retired plan': refused('plan_archived'),
    downgraded: conflict,
    expired: conflict,
    ...overRefused,
  },
  revoke: { ...revokes, retired: conflict },
  retire: {
    active: becomes('retired'),
    suspended: becomes('retired'),
    downgraded: becomes('retired'),
    expired: becomes('retired'),
    revoked: becomes('retired'),
    retired: nothing,
  },

  'an end moved ahead': {
    active: changed('active'),
    suspended: conflict,
    'suspended for manual': changed('suspended', 'manual'),
    'suspended for plan_archived': changed('suspended', 'plan_archived'),
    'suspended for payment_failed': changed('suspended', 'payment_failed'),
    'suspended for dispute_inquiry': changed('suspended', 'dispute_inquiry'),
    downgraded: changed('downgraded'),
    // The result is the same for every cause of the expiry.
    expired: {
      ...reactivated,
      history: [
        ['changed', 'expired'],
        ['reactivated', 'active'],
      ],
    },
    'expired on a retired plan': refused('plan_archived'),
    'expired, before that downgraded': changed('downgraded'),
    'expired, before that suspended for manual': changed('suspended', 'manual'),
    'expired, before that suspended for plan_archived': changed('suspended', 'plan_archived'),
    'expired, before that suspended for payment_failed': changed('suspended', 'payment_failed'),
    'expired, before that suspended for dispute_inquiry': changed('suspended', 'dispute_inquiry'),
    ...overRefused,
  },

  archive: { active: becomes('suspended', 'plan_archived'), ...ifActive },
  sweep: expires,

  'failed payments': { active: becomes('suspended', 'payment_failed'), ...ifActive },
  'an inquiry': { active: becomes('suspended', 'dispute_inquiry'), ...ifActive },
  'an inquiry that closes': {
    ...changesNoStatus,
    'suspended for dispute_inquiry': reactivated,
    'suspended for dispute_inquiry on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
  },
  'a full refund': revokes,
  'a chargeback': revokes,
  'a partial refund': {
    active: becomes('downgraded'),
    suspended: becomes('downgraded'),
    downgraded: nothing,
    expired: becomes('downgraded'),
    ...over,
  },
  'a cancelled subscription': expires,

  // docs/guides/licences.md, "Before a licence expires": only the notice of an expiry depends on it.
  'a cancellation for the end of the period': changesNoStatus,
  'the undoing of such a cancellation': changesNoStatus,

  'a payment': {
    'on a retired plan': refused('plan_archived'),
    active: getsPlan('active'),
    suspended: nothing,
    'suspended for manual': getsPlan('suspended', 'manual'),
    'suspended for plan_archived': getsPlan('suspended', 'plan_archived'),
    'suspended for payment_failed': getsPlan('active'),
    'suspended for dispute_inquiry': getsPlan('suspended', 'dispute_inquiry'),
    downgraded: getsPlan('active'),
    expired: getsPlan('active'),
    revoked: { newLicence: true },
    retired: { newLicence: true },
  },

  'a renewal': {
    active: renewed('active'),
    suspended: nothing,
    'suspended for manual': renewed('suspended', 'manual'),
    'suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'suspended for payment_failed': paidAgain('suspended'),
    'suspended for payment_failed on a retired plan': paidOnRetiredPlan,
    downgraded: paidAgain('downgraded'),
    'downgraded on a retired plan': renewed('downgraded'),
    // A cancellation is final for its purchase.
    expired: nothing,
    // An invoice can be paid after the end of its period, when the sweep may have expired the licence. The payment undoes that.
    'expired, before that active': paidAgain('expired'),
    'expired, before that active on a retired plan': returnsToRetiredPlan,
    'expired, before that downgraded': paidAgain('expired'),
    'expired, before that downgraded on a retired plan': renewed('downgraded'),
    'expired, before that suspended for manual': renewed('suspended', 'manual'),
    'expired, before that suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'expired, before that suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'expired, before that suspended for payment_failed': paidAgain('expired'),
    'expired, before that suspended for payment_failed on a retired plan': returnsToRetiredPlan,
    ...over,
  },
  'a renewal of a period that is over': {
    active: renewed('active'),
    suspended: nothing,
    'suspended for manual': renewed('suspended', 'manual'),
    'suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'suspended for payment_failed': paidAgain('suspended'),
    'suspended for payment_failed on a retired plan': paidOnRetiredPlan,
    downgraded: renewed('downgraded'),
    expired: nothing,
    'expired, before that active': renewed('expired'),
    'expired, before that downgraded': renewed('expired'),
    'expired, before that suspended for manual': renewed('expired'),
    'expired, before that suspended for plan_archived': renewed('expired'),
    'expired, before that suspended for dispute_inquiry': renewed('expired'),
    'expired, before that suspended for payment_failed': renewed('expired'),
    ...over,
  },
  // Invoices can arrive in any order. An invoice never moves the end back.
  'a renewal that moves no end': {
    active: nothing,
    suspended: nothing,
    'suspended for payment_failed': reactivated,
    'suspended for payment_failed on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
    downgraded: reactivated,
    'downgraded on a retired plan': nothing,
    expired: nothing,
    ...over,
  },
} satisfies Record<string, Rule>

export type Cause = keyof typeof rules

/** The result of a cause for a licence, on an active or retired plan. */
export function resultOf(cause: Cause, position: Position, plan: string): Result {
  const rule: Rule = rules[cause]
  const situations = [describe(position), position.status].flatMap((name) =>
    plan === 'retired' ? [`${name} on a retired plan`, name] : [name],
  )
  if (plan === 'retired') situations.unshift('on a retired plan')
  const applying = situations.find((situation): situation is Situation => situation in rule)
  return rule[applying!]!
}

/** Every position of a licence. An expired licence was expired by a cancellation, or by the sweep from any other position. */
export const positions: Position[] = [
  { status: 'active' },
  ...closedSets.suspensionReason.map((reason) => ({ status: 'suspended', reason })),
  { status: 'downgraded' },
  { status: 'revoked' },
  { status: 'retired' },
  { status: 'expired' },
  { status: 'expired', sweptFrom: { status: 'active' } },
  ...closedSets.suspensionReason.map((reason) => ({
    status: 'expired',
    sweptFrom: { status: 'suspended', reason },
  })),
  { status: 'expired', sweptFrom: { status: 'downgraded' } },
]

/** The statuses before and after each type of history entry, by the rules. */
export function ruledChanges(): Map<string, { from: Set<string>; to: Set<string> }> {
  const changes = new Map<string, { from: Set<string>; to: Set<string> }>()
  for (const cause of Object.keys(rules) as Cause[]) {
    for (const position of positions) {
      for (const plan of closedSets.planStatus) {
        const result = resultOf(cause, position, plan)
        let from = position.status
        for (const [type, to] of 'to' in result ? result.history : []) {
          const change = changes.get(type) ?? { from: new Set(), to: new Set() }
          changes.set(type, { from: change.from.add(from), to: change.to.add(to) })
          from = to
        }
      }
    }
  }
  return changes
}

/** A position in the words of the rules. */
export function describe({ status, reason, sweptFrom }: Position): string {
  if (sweptFrom) return `${status}, before that ${describe(sweptFrom)}`
  return reason === undefined ? status : `${status} for ${reason}`
}

/** The verbs that are allowed now, which a refusal lists. */
export function allowedIn(position: Position, plan: string): string[] {
  const verbs = ['suspend', 'reactivate', 'revoke', 'retire'] as const
  return verbs.filter((verb) => 'to' in resultOf(verb, position, plan))
}
