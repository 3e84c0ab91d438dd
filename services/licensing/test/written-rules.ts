import type { LicenceStatus } from '@licensing/proto/closed-sets'

// Interface 3 and decisions 4 and 7, written a second time by hand, as an oracle. It deliberately shares no code with the
// service.

/** The status of a licence, and what it depends on. */
export interface Position {
  status: string
  /** Why it is suspended. */
  reason?: string | undefined
  /** The position before it expired. */
  sweptFrom?: Position | undefined
}

export type Result =
  | { refused: string }
  | { nothing: true }
  // The customer has no licence on which the payment can land.
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
const takesThePlan = (to: string, reason?: string): Result => {
  return { to, reason, event: 'licence.plan_changed', history: [['plan_changed', to]] }
}
/** A change by the vendor that sends no event. */
const changed = (to: string, reason?: string): Result => ({ to, reason, history: [['changed', to]] })
/** A renewal that sends no event. */
const renewed = (to: string, reason?: string): Result => ({ to, reason, history: [['renewed', to]] })

/** A renewal after which the licence is active again. */
const madeGood = (from: string): Result => ({
  ...reactivated,
  history: [
    ['renewed', from],
    ['reactivated', 'active'],
  ],
})
// No licence is active on a retired plan. The vendor has already been notified of the suspension.
const madeGoodOnRetiredPlan: Result = {
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

/**
 * The result of a cause for each status. A key with more words than a status is a special case of it; the most special
 * one that matches applies.
 */
type Rule = Record<LicenceStatus, Result> & Record<string, Result>

const conflict = refused('conflict')
const becomesExpired = {
  active: becomes('expired'),
  suspended: becomes('expired'),
  downgraded: becomes('expired'),
  expired: nothing,
  revoked: nothing,
  retired: nothing,
}
const becomesRevoked = {
  active: becomes('revoked'),
  suspended: becomes('revoked'),
  downgraded: becomes('revoked'),
  expired: becomes('revoked'),
}

export const rules = {
  suspend: {
    active: becomes('suspended', 'manual'),
    suspended: conflict,
    expired: conflict,
    downgraded: conflict,
    revoked: conflict,
    retired: conflict,
  },
  reactivate: {
    suspended: reactivated,
    'suspended on a retired plan': refused('plan_archived'),
    active: conflict,
    expired: conflict,
    downgraded: conflict,
    revoked: conflict,
    retired: conflict,
  },
  revoke: { ...becomesRevoked, revoked: nothing, retired: conflict },
  retire: {
    retired: nothing,
    active: becomes('retired'),
    suspended: becomes('retired'),
    expired: becomes('retired'),
    downgraded: becomes('retired'),
    revoked: becomes('retired'),
  },

  'an end moved ahead': {
    active: changed('active'),
    downgraded: changed('downgraded'),
    'suspended for manual': changed('suspended', 'manual'),
    'suspended for plan_archived': changed('suspended', 'plan_archived'),
    'suspended for payment_failed': changed('suspended', 'payment_failed'),
    'suspended for dispute_inquiry': changed('suspended', 'dispute_inquiry'),
    // Whether the sweep or a cancellation expired it.
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
    suspended: conflict,
    revoked: conflict,
    retired: conflict,
  },

  archive: {
    active: becomes('suspended', 'plan_archived'),
    suspended: nothing,
    expired: nothing,
    downgraded: nothing,
    revoked: nothing,
    retired: nothing,
  },
  sweep: becomesExpired,

  'failed payments': {
    active: becomes('suspended', 'payment_failed'),
    suspended: nothing,
    expired: nothing,
    downgraded: nothing,
    revoked: nothing,
    retired: nothing,
  },
  'an inquiry': {
    active: becomes('suspended', 'dispute_inquiry'),
    suspended: nothing,
    expired: nothing,
    downgraded: nothing,
    revoked: nothing,
    retired: nothing,
  },
  'an inquiry that closes': {
    'suspended for dispute_inquiry': reactivated,
    'suspended for dispute_inquiry on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
    active: nothing,
    suspended: nothing,
    expired: nothing,
    downgraded: nothing,
    revoked: nothing,
    retired: nothing,
  },
  'a full refund': { ...becomesRevoked, revoked: nothing, retired: nothing },
  'a partial refund': {
    active: becomes('downgraded'),
    suspended: becomes('downgraded'),
    expired: becomes('downgraded'),
    downgraded: nothing,
    revoked: nothing,
    retired: nothing,
  },
  'a cancelled subscription': becomesExpired,

  'a payment': {
    active: takesThePlan('active'),
    expired: takesThePlan('active'),
    downgraded: takesThePlan('active'),
    'suspended for payment_failed': takesThePlan('active'),
    'suspended for manual': takesThePlan('suspended', 'manual'),
    'suspended for plan_archived': takesThePlan('suspended', 'plan_archived'),
    'suspended for dispute_inquiry': takesThePlan('suspended', 'dispute_inquiry'),
    revoked: { newLicence: true },
    retired: { newLicence: true },
    'on a retired plan': refused('plan_archived'),
    suspended: nothing,
  },

  'a renewal': {
    active: renewed('active'),
    downgraded: madeGood('downgraded'),
    'downgraded on a retired plan': renewed('downgraded'),
    'suspended for manual': renewed('suspended', 'manual'),
    'suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'suspended for payment_failed': madeGood('suspended'),
    'suspended for payment_failed on a retired plan': madeGoodOnRetiredPlan,
    // An invoice may be paid after its period's end and after the sweep: the renewal undoes the expiry.
    'expired, before that active': madeGood('expired'),
    'expired, before that active on a retired plan': returnsToRetiredPlan,
    'expired, before that downgraded': madeGood('expired'),
    'expired, before that downgraded on a retired plan': renewed('downgraded'),
    'expired, before that suspended for manual': renewed('suspended', 'manual'),
    'expired, before that suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'expired, before that suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'expired, before that suspended for payment_failed': madeGood('expired'),
    'expired, before that suspended for payment_failed on a retired plan': returnsToRetiredPlan,
    // A cancelled purchase is not renewed.
    suspended: nothing,
    expired: nothing,
    revoked: nothing,
    retired: nothing,
  },
  'a renewal of a period that is over': {
    'expired, before that active': renewed('expired'),
    'expired, before that downgraded': renewed('expired'),
    'expired, before that suspended for manual': renewed('expired'),
    'expired, before that suspended for plan_archived': renewed('expired'),
    'expired, before that suspended for dispute_inquiry': renewed('expired'),
    'expired, before that suspended for payment_failed': renewed('expired'),
    active: renewed('active'),
    downgraded: renewed('downgraded'),
    'suspended for manual': renewed('suspended', 'manual'),
    'suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'suspended for payment_failed': madeGood('suspended'),
    'suspended for payment_failed on a retired plan': madeGoodOnRetiredPlan,
    suspended: nothing,
    expired: nothing,
    revoked: nothing,
    retired: nothing,
  },
  // Invoices may arrive in any order, and none moves the end back.
  'a renewal that moves no end': {
    'suspended for payment_failed': reactivated,
    'suspended for payment_failed on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
    downgraded: reactivated,
    'downgraded on a retired plan': nothing,
    active: nothing,
    suspended: nothing,
    expired: nothing,
    revoked: nothing,
    retired: nothing,
  },
} satisfies Record<string, Rule>

export type Cause = keyof typeof rules

/** The result of a cause for a licence in this position, on an active or retired plan. */
export function resultOf(cause: Cause, position: Position, plan: string): Result {
  const rule: Rule = rules[cause]
  const onPlan = plan === 'retired' ? ' on a retired plan' : ''
  const situations = [describe(position), position.status].flatMap((name) => [name + onPlan, name])
  for (const situation of [...(onPlan === '' ? [] : [onPlan.trim()]), ...situations]) {
    const result = rule[situation]
    if (result) return result
  }
  throw new Error(`there is no rule for ${cause} and ${position.status}`)
}

/** The name of a position in the rules. */
export function describe({ status, reason, sweptFrom }: Position): string {
  if (sweptFrom) return `${status}, before that ${describe(sweptFrom)}`
  return reason === undefined ? status : `${status} for ${reason}`
}

/** The verbs that a refusal lists: those that would change the licence now. */
export function allowedIn({ status }: Position, plan: string): string[] {
  const allowed: Record<string, string[]> = {
    active: ['suspend', 'revoke', 'retire'],
    suspended: plan === 'retired' ? ['revoke', 'retire'] : ['reactivate', 'revoke', 'retire'],
    downgraded: ['revoke', 'retire'],
    expired: ['revoke', 'retire'],
    revoked: ['retire'],
    retired: [],
  }
  return allowed[status]!
}
