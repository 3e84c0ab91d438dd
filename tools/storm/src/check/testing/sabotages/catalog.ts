import { repeat, type Sabotage } from './sabotage.ts'

export const catalogSabotages: Sabotage[] = [
  {
    what: 'a lost plan',
    change: ({ plans }) => void plans.shift(),
    rule: 'plans match the answers',
  },
  {
    what: 'a lost change of a plan',
    change: ({ plans }) => void (plans[0]!.name = 'steady'),
    rule: 'plans match the answers',
  },
  {
    what: 'a refused plan that exists',
    change: ({ plans }) => repeat(plans, ({ id }) => id === 'pln_1', { id: 'pln_x', code: 'refused' }),
    rule: 'plans match the answers',
  },
  {
    what: 'an archive that was undone',
    change: ({ plans }) => void (plans[1]!.status = 'active'),
    rule: 'a plan has the status that was set last',
  },
  {
    what: 'a copy of a plan that was not updated',
    change: ({ planCopies }) => void (planCopies[0]!.licensing!.version = 2),
    rule: 'copies of plans equal the plans',
  },
  {
    what: 'a lost definition',
    change: ({ definitions }) => void definitions.pop(),
    rule: 'definitions match the answers',
  },
  {
    what: 'a deleted definition that exists',
    change: ({ definitions }) => void definitions.push({ id: 'ent_2', appId: 'app_1', key: 'ent_2' }),
    rule: 'definitions match the answers',
  },
  {
    what: 'a lost API key',
    change: ({ apiKeys }) => void apiKeys.shift(),
    rule: 'API keys match the answers',
  },
  {
    what: 'a revoked API key that is still accepted',
    change: ({ apiKeys }) => void (apiKeys[1]!.accepted = true),
    rule: 'API keys match the answers',
  },
  {
    what: 'an API key revoked by nobody',
    change: ({ apiKeys }) => void Object.assign(apiKeys[0]!, { revoked: true, accepted: false }),
    rule: 'API keys match the answers',
  },
  {
    what: 'a lost change of the spend cap',
    change: ({ capMinor }) => void (capMinor[0]!.capMinor = null),
    rule: 'the spend cap matches the answers',
  },
  {
    what: 'a lost endpoint',
    change: ({ endpoints }) => void endpoints.shift(),
    rule: 'endpoints match the answers',
  },
  {
    what: 'a deleted endpoint that is still enabled',
    change: ({ endpoints }) => void (endpoints[1]!.status = 'enabled'),
    rule: 'endpoints match the answers',
  },
  {
    what: 'an endpoint disabled though its receiver answered',
    change: ({ endpoints }) =>
      void Object.assign(endpoints[0]!, { status: 'disabled', disabledReason: 'retries_exhausted' }),
    rule: 'endpoints match the answers',
  },
]
