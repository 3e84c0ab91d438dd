import type { Quota } from './closed-sets.ts'

interface Bound {
  /** The quota of an account, unless an operator has changed it. */
  defaultValue: number
  /** The most that an operator can allow. */
  ceiling: number
  /** Resources are counted per account, per application or per licence. */
  per: 'account' | 'application' | 'licence' | 'application and UTC day'
}

/** A resource beyond the quota is refused. */
interface Refusing extends Bound {
  beyond: 'refused'
  /** Plural of the resource, for the text of the error. */
  noun: string
  /** Advice for the caller, in the text of the error. */
  remedy: string
}

/** A resource beyond the quota replaces the oldest: installed products create it, and could not react to a refusal. */
interface Replacing extends Bound {
  beyond: 'replaced'
}

const operator = 'ask the operator to raise the quota'

/** The quotas of all resources that a vendor or a product can create. */
export const quotas = {
  applications: {
    defaultValue: 100,
    ceiling: 100_000,
    noun: 'applications',
    per: 'account',
    beyond: 'refused',
    remedy: operator,
  },
  api_keys: {
    defaultValue: 500,
    ceiling: 100_000,
    noun: 'API keys in force',
    per: 'account',
    beyond: 'refused',
    remedy: `revoke one that is not used any more, or ${operator}`,
  },
  plans: {
    defaultValue: 1_000,
    ceiling: 100_000,
    noun: 'plans',
    per: 'application',
    beyond: 'refused',
    remedy: operator,
  },
  // The copy of a plan that licensing gets is one message with every definition.
  entitlement_defs: {
    defaultValue: 500,
    ceiling: 2_000,
    noun: 'entitlement definitions',
    per: 'application',
    beyond: 'refused',
    remedy: `delete one that is not used any more, or ${operator}`,
  },
  webhook_endpoints: {
    defaultValue: 50,
    ceiling: 10_000,
    noun: 'enabled webhook endpoints',
    per: 'application',
    beyond: 'refused',
    remedy: `delete one, or ${operator}`,
  },
  activations: {
    defaultValue: 10_000,
    ceiling: 1_000_000,
    noun: 'activations',
    per: 'licence',
    beyond: 'refused',
    remedy: `deactivate an installation, or ${operator}`,
  },
  // Hosts on which a licence was seen. The quota is at least that of activations.
  hosts: { defaultValue: 10_000, ceiling: 1_000_000, per: 'licence', beyond: 'replaced' },
  // Entries of a licence's history for activations that products freed.
  deactivations: { defaultValue: 1_000, ceiling: 100_000, per: 'licence', beyond: 'replaced' },
  // Answers that are kept for 24 hours, so that a repetition with the same Idempotency-Key gets them again.
  idempotency_bytes: {
    defaultValue: 2 ** 30,
    ceiling: 2 ** 40,
    noun: 'bytes of answers kept for Idempotency-Key in 24 hours',
    per: 'account',
    beyond: 'refused',
    remedy: `nothing was done: call without the header where a repetition does no harm, try again later, or ${operator}`,
  },
  trials_per_day: {
    defaultValue: 1_000,
    ceiling: 1_000_000,
    noun: 'new trials a day',
    per: 'application and UTC day',
    beyond: 'refused',
    remedy: `try again tomorrow, or ${operator}`,
  },
  // People who are not removed.
  members: {
    defaultValue: 500,
    ceiling: 100_000,
    noun: 'members',
    per: 'account',
    beyond: 'refused',
    remedy: `remove one, or ${operator}`,
  },
} as const satisfies Record<Quota, Refusing | Replacing>

/** Quotas beyond which a resource is refused. */
export type RefusingQuota = {
  [K in Quota]: (typeof quotas)[K]['beyond'] extends 'refused' ? K : never
}[Quota]
