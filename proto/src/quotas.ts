import type { Quota } from './closed-sets.ts'

interface QuotaKind {
  /** What an account may have, where no operator has changed it. */
  usual: number
  /** The most that an operator can allow. */
  ceiling: number
  /** In the plural, for the error of who has all of them. */
  noun: string
  /** What is counted together: the things of an account, of one of its applications, or of one licence. */
  per: 'account' | 'application' | 'licence'
  /** What makes a place free. */
  remedy: string
}

const operator = 'ask the operator to raise the quota'

/** What an account may have of each thing that a vendor or a product can make. */
export const quotas = {
  applications: { usual: 100, ceiling: 100_000, noun: 'applications', per: 'account', remedy: operator },
  api_keys: {
    usual: 500,
    ceiling: 100_000,
    noun: 'API keys in force',
    per: 'account',
    remedy: `revoke one that is not used any more, or ${operator}`,
  },
  plans: { usual: 1_000, ceiling: 100_000, noun: 'plans', per: 'application', remedy: operator },
  // A plan's copy for licensing is one message, which carries every definition.
  entitlement_defs: {
    usual: 500,
    ceiling: 2_000,
    noun: 'entitlement definitions',
    per: 'application',
    remedy: `delete one that is not used any more, or ${operator}`,
  },
  webhook_endpoints: {
    usual: 50,
    ceiling: 10_000,
    noun: 'enabled webhook endpoints',
    per: 'application',
    remedy: `delete one, or ${operator}`,
  },
  activations: {
    usual: 10_000,
    ceiling: 1_000_000,
    noun: 'activations',
    per: 'licence',
    remedy: `deactivate an installation, or ${operator}`,
  },
} as const satisfies Record<Quota, QuotaKind>
