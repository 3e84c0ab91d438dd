// Interface 3 and decisions 4 and 7, written a second time and by hand, to compare the service with. It shares no code
// with the service on purpose.

/** Where a licence stands. */
export interface Position {
  status: string
  /** Why it is suspended. */
  reason?: string | undefined
  /** What the sweep found it to be. */
  sweptFrom?: Position | undefined
}

export type Result =
  | { refused: string }
  | { nothing: true }
  // A payment finds no licence of the customer's.
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
/** A renewal that sends no event, and where it leads. */
const renewed = (to: string, reason?: string): Result => ({ to, reason, history: [['renewed', to]] })

/** A renewal after which the licence is active again. */
const madeGood = (from: string): Result => ({
  ...reactivated,
  history: [
    ['renewed', from],
    ['reactivated', 'active'],
  ],
})
// No licence is active there, and the vendor has been sent its suspension before.
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
 * What a cause makes of a licence. A situation is a status, with more said where it matters; the one that says most
 * counts, and `else` where none is named.
 */
type Rule = Record<'else', Result> & Record<string, Result>

const worksOn = { active: becomes('expired'), suspended: becomes('expired'), downgraded: becomes('expired') }
const ends = {
  active: becomes('revoked'),
  suspended: becomes('revoked'),
  downgraded: becomes('revoked'),
  expired: becomes('revoked'),
}

export const rules = {
  suspend: { active: becomes('suspended', 'manual'), else: refused('conflict') },
  reactivate: {
    suspended: reactivated,
    'suspended on a retired plan': refused('plan_archived'),
    else: refused('conflict'),
  },
  revoke: { ...ends, revoked: nothing, else: refused('conflict') },
  retire: { retired: nothing, else: becomes('retired') },

  'an end moved ahead': {
    active: changed('active'),
    downgraded: changed('downgraded'),
    'suspended for manual': changed('suspended', 'manual'),
    'suspended for plan_archived': changed('suspended', 'plan_archived'),
    'suspended for payment_failed': changed('suspended', 'payment_failed'),
    'suspended for dispute_inquiry': changed('suspended', 'dispute_inquiry'),
    // Whatever had expired it.
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
    else: refused('conflict'),
  },

  archive: { active: becomes('suspended', 'plan_archived'), else: nothing },
  sweep: { ...worksOn, else: nothing },

  'failed payments': { active: becomes('suspended', 'payment_failed'), else: nothing },
  'an inquiry': { active: becomes('suspended', 'dispute_inquiry'), else: nothing },
  'an inquiry that closes': {
    'suspended for dispute_inquiry': reactivated,
    'suspended for dispute_inquiry on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
    else: nothing,
  },
  'a full refund': { ...ends, else: nothing },
  'a partial refund': {
    active: becomes('downgraded'),
    suspended: becomes('downgraded'),
    expired: becomes('downgraded'),
    else: nothing,
  },
  'a cancelled subscription': { ...worksOn, else: nothing },

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
    else: nothing,
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
    // An invoice is paid after its period's end, when the sweep may have passed: the expiry is taken back.
    'expired, before that active': madeGood('expired'),
    'expired, before that active on a retired plan': returnsToRetiredPlan,
    'expired, before that downgraded': madeGood('expired'),
    'expired, before that downgraded on a retired plan': renewed('downgraded'),
    'expired, before that suspended for manual': renewed('suspended', 'manual'),
    'expired, before that suspended for plan_archived': renewed('suspended', 'plan_archived'),
    'expired, before that suspended for dispute_inquiry': renewed('suspended', 'dispute_inquiry'),
    'expired, before that suspended for payment_failed': madeGood('expired'),
    'expired, before that suspended for payment_failed on a retired plan': returnsToRetiredPlan,
    // A cancellation is final for its purchase.
    else: nothing,
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
    else: nothing,
  },
  // Invoices may come in any order, and none moves the end back.
  'a renewal that moves no end': {
    'suspended for payment_failed': reactivated,
    'suspended for payment_failed on a retired plan': {
      to: 'suspended',
      reason: 'plan_archived',
      history: [['suspended', 'suspended']],
    },
    downgraded: reactivated,
    'downgraded on a retired plan': nothing,
    else: nothing,
  },
} satisfies Record<string, Rule>

export type Cause = keyof typeof rules

/** What a cause makes of a licence that stands so, on a plan that is active or retired. */
export function resultOf(cause: Cause, position: Position, plan: string): Result {
  const rule: Rule = rules[cause]
  const onPlan = plan === 'retired' ? ' on a retired plan' : ''
  const situations = [describe(position), position.status].flatMap((name) => [name + onPlan, name])
  for (const situation of [...(onPlan === '' ? [] : [onPlan.trim()]), ...situations]) {
    const result = rule[situation]
    if (result) return result
  }
  return rule.else
}

/** A position in words: what the rules name. */
export function describe({ status, reason, sweptFrom }: Position): string {
  if (sweptFrom) return `${status}, before that ${describe(sweptFrom)}`
  return reason === undefined ? status : `${status} for ${reason}`
}

/** The verbs that a refusal names: those that would change the licence now. */
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
