import { repeat, type Sabotage } from './sabotage.ts'

export const catalogSabotages: Sabotage[] = [
  {
    what: 'a lost plan',
    change: ({ plans }) => void plans.shift(),
    rule: 'plans are as they were answered',
  },
  {
    what: 'a lost change of a plan',
    change: ({ plans }) => void (plans[0]!.name = 'steady'),
    rule: 'plans are as they were answered',
  },
  {
    what: 'a refused plan that is there',
    change: ({ plans }) => repeat(plans, ({ id }) => id === 'pln_1', { id: 'pln_x', code: 'refused' }),
    rule: 'plans are as they were answered',
  },
  {
    what: 'an archive that was undone',
    change: ({ plans }) => void (plans[1]!.status = 'active'),
    rule: 'a plan has the status it was given',
  },
  {
    what: 'a copy of a plan that was not brought up to date',
    change: ({ planCopies }) => void (planCopies[0]!.licensing!.version = 2),
    rule: 'copies of plans are the plans',
  },
  {
    what: 'a lost definition',
    change: ({ definitions }) => void definitions.pop(),
    rule: 'definitions are as they were answered',
  },
  {
    what: 'a deleted definition that is there',
    change: ({ definitions }) => void definitions.push({ id: 'ent_2', appId: 'app_1', key: 'ent_2' }),
    rule: 'definitions are as they were answered',
  },
  {
    what: 'a lost API key',
    change: ({ apiKeys }) => void apiKeys.shift(),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'a revoked API key that is still accepted',
    change: ({ apiKeys }) => void (apiKeys[1]!.accepted = true),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'an API key revoked by nobody',
    change: ({ apiKeys }) => void Object.assign(apiKeys[0]!, { revoked: true, accepted: false }),
    rule: 'API keys are as they were answered',
  },
  {
    what: 'a lost change of the spend cap',
    change: ({ capMinor }) => void (capMinor[0]!.capMinor = null),
    rule: 'the spend cap is as it was answered',
  },
  {
    what: 'a lost endpoint',
    change: ({ endpoints }) => void endpoints.shift(),
    rule: 'endpoints are as they were answered',
  },
  {
    what: 'a deleted endpoint in force',
    change: ({ endpoints }) => void (endpoints[1]!.status = 'enabled'),
    rule: 'endpoints are as they were answered',
  },
  {
    what: 'an endpoint disabled though its receiver answered',
    change: ({ endpoints }) =>
      void Object.assign(endpoints[0]!, { status: 'disabled', disabledReason: 'retries_exhausted' }),
    rule: 'endpoints are as they were answered',
  },
]
