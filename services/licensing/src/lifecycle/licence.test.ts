import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus, LicenceVerb, SuspensionReason } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import {
  allowedVerbs,
  bulkChanges,
  expirable,
  holds,
  leads,
  payable,
  purchaseStates,
  stateAfter,
  statuses,
  statusOf,
  stepsOf,
} from './licence.ts'
import type { BulkChange, Hold, LicenceState, PurchaseState, ShownStatus, StatusInputs } from './licence.ts'

const now = new Date('2026-06-01T00:00:00Z')
const [past, ahead] = [new Date(now.getTime() - 1), new Date(now.getTime() + 1)]
const ends = [past, now, ahead, null]

type Name = Exclude<LicenceStatus, 'suspended'> | SuspensionReason
const named = ({ status, status_reason }: ShownStatus): Name =>
  status === 'suspended' ? status_reason! : status

const heldFor = (reason: SuspensionReason): Record<PurchaseState, Name> => ({
  paid: reason,
  payment_failed: reason,
  inquiry_opened: reason,
  partially_refunded: reason,
  cancelled: 'expired',
  refunded: 'revoked',
})
const always = (status: Name): Record<PurchaseState, Name> => ({
  paid: status,
  payment_failed: status,
  inquiry_opened: status,
  partially_refunded: status,
  cancelled: status,
  refunded: status,
})

/** The status of a licence whose end has not passed. */
const beforeEnd: Record<Hold, Record<PurchaseState, Name>> = {
  none: {
    paid: 'active',
    payment_failed: 'payment_failed',
    inquiry_opened: 'dispute_inquiry',
    partially_refunded: 'downgraded',
    cancelled: 'expired',
    refunded: 'revoked',
  },
  manual: heldFor('manual'),
  plan_archived: heldFor('plan_archived'),
  revoked: always('revoked'),
  retired: always('retired'),
}

const combinations = holds.flatMap((hold) => purchaseStates.map((purchase) => ({ hold, purchase })))

/** Every state that a licence can be stored with. */
const states: LicenceState[] = combinations.flatMap((inputs) =>
  [past, ahead].map((end) => ({ ...inputs, ...statusOf({ ...inputs, end, now }) })),
)

test.each(combinations)(
  'with $hold and $purchase, a licence has its status, and after its end it is expired unless it is over',
  (inputs) => {
    const status = beforeEnd[inputs.hold][inputs.purchase]
    const isOver = status === 'revoked' || status === 'retired'
    const after = isOver ? status : 'expired'
    expect(ends.map((end) => named(statusOf({ ...inputs, end, now })))).toEqual([
      after,
      after,
      status,
      status,
    ])
  },
)

test('a suspension has a reason, and no other status has one', () => {
  for (const { status, status_reason } of states) {
    expect(status_reason !== null).toBe(status === 'suspended')
  }
})

test('the lists of statuses are those of the guide', () => {
  expect(new Set(expirable)).toEqual(new Set(['active', 'suspended', 'downgraded']))
  expect(new Set(payable)).toEqual(new Set(['active', 'suspended', 'expired', 'downgraded']))
  const granting = (what: string) => closedSets.licenceStatus.filter((one) => statuses[one].grants === what)
  expect([granting('values'), granting('defaults')]).toEqual([['active'], ['downgraded']])
})

/** The status after a verb, by the status before it; `restored`: `active`, if the plan is active. */
const byVerb: Record<LicenceVerb, Record<LicenceStatus, LicenceStatus | 'refused' | 'restored'>> = {
  suspend: {
    active: 'suspended',
    suspended: 'refused',
    expired: 'refused',
    downgraded: 'refused',
    revoked: 'refused',
    retired: 'refused',
  },
  reactivate: {
    active: 'refused',
    suspended: 'restored',
    expired: 'refused',
    downgraded: 'refused',
    revoked: 'refused',
    retired: 'refused',
  },
  revoke: {
    active: 'revoked',
    suspended: 'revoked',
    expired: 'revoked',
    downgraded: 'revoked',
    revoked: 'revoked',
    retired: 'refused',
  },
  retire: {
    active: 'retired',
    suspended: 'retired',
    expired: 'retired',
    downgraded: 'retired',
    revoked: 'retired',
    retired: 'retired',
  },
}

test.each(
  closedSets.licenceVerb.flatMap((verb) => closedSets.licenceStatus.map((status) => ({ verb, status }))),
)('$verb of a licence that is $status is allowed or refused as the interface says', ({ verb, status }) => {
  const result = byVerb[verb][status]
  const { from, to, repeatable }: BulkChange = bulkChanges[verb]
  expect(from.includes(status)).toBe(result !== 'refused' && result !== status)
  expect(repeatable === true && to === status).toBe(result === status)
  const allowedOn = closedSets.planStatus.filter((plan) => allowedVerbs(status, plan).includes(verb))
  const everywhere = result === 'refused' || result === status ? [] : closedSets.planStatus
  expect(allowedOn).toEqual(result === 'restored' ? ['active'] : everywhere)
})

test.each(Object.keys(bulkChanges) as (keyof typeof bulkChanges)[])(
  'the statement for %s gives each licence the status that the rules give it',
  (name) => {
    const change: BulkChange = bulkChanges[name]
    const changed = combinations.filter((inputs) =>
      change.from.includes(statusOf({ ...inputs, end: ahead, now }).status),
    )
    expect(changed).not.toEqual([])
    for (const { hold, purchase } of changed) {
      const after: StatusInputs = {
        hold: change.hold ?? hold,
        purchase: change.ignoresEarlierPaymentProblems ? 'paid' : purchase,
        end: name === 'end_passed' ? past : ahead,
        now,
      }
      const written = { status: change.to, status_reason: change.reason ?? null }
      expect({ hold, purchase, ...statusOf(after) }).toEqual({ hold, purchase, ...written })
    }
  },
)

test('after every change a licence has the status of the rules, except that the sweep alone notes a passed end', () => {
  for (const before of states.filter(({ status }) => payable.includes(status))) {
    for (const purchase of purchaseStates) {
      for (const end of [past, ahead]) {
        for (const plan of closedSets.planStatus) {
          for (const isReplaced of [false, true]) {
            const change = { purchase, end, now, plan, isReplaced }
            const after = stateAfter(before, change)
            const seen = { before, change, after }
            const isForSweep = end === past && before.status !== 'expired' && after.status !== 'revoked'
            const kept = isForSweep && purchase !== 'cancelled'
            const expected = kept
              ? [named(before), 'plan_archived']
              : [named(statusOf({ ...after, end, now }))]
            expect({ ...seen, is: expected.includes(named(after)) }).toEqual({ ...seen, is: true })
            const isActiveOnRetired = plan === 'retired' && after.status === 'active'
            expect({ ...seen, isActiveOnRetired }).toEqual({ ...seen, isActiveOnRetired: false })
            expect({ ...seen, purchase: after.purchase }).toEqual({ ...seen, purchase })
          }
        }
      }
    }
  }
})

const state = (hold: Hold, purchase: PurchaseState, end: Date | null = null): LicenceState => {
  return { hold, purchase, ...statusOf({ hold, purchase, end, now }) }
}
type Change = Partial<Parameters<typeof stateAfter>[1]>

const changes: [title: string, before: LicenceState, change: Change, hold: Hold, status: Name][] = [
  ['a payment', state('manual', 'paid'), { isReplaced: true }, 'manual', 'manual'],
  ['failed payments', state('manual', 'paid'), { purchase: 'payment_failed' }, 'manual', 'manual'],
  ['a partial refund', state('manual', 'paid'), { purchase: 'partially_refunded' }, 'none', 'downgraded'],
  ['a partial refund', state('none', 'cancelled'), { purchase: 'cancelled' }, 'none', 'expired'],
  [
    'a full refund',
    state('plan_archived', 'cancelled'),
    { purchase: 'refunded' },
    'plan_archived',
    'revoked',
  ],
  ['a renewal', state('manual', 'paid', past), { end: ahead }, 'manual', 'manual'],
  ['a renewal', state('none', 'payment_failed', past), { end: ahead }, 'none', 'active'],
  [
    'a renewal on a retired plan',
    state('none', 'partially_refunded'),
    { plan: 'retired' },
    'plan_archived',
    'plan_archived',
  ],
  ['another purchase', state('manual', 'paid', past), { isReplaced: true }, 'none', 'active'],
  [
    'another purchase in dispute',
    state('manual', 'paid', past),
    { isReplaced: true, purchase: 'inquiry_opened' },
    'none',
    'dispute_inquiry',
  ],
]

test.each(changes)(
  'after %s, a licence with %o and the change %o is held by %s and is %s',
  (_, before, change, hold, status) => {
    const after = stateAfter(before, {
      purchase: 'paid',
      end: null,
      now,
      plan: 'active',
      isReplaced: false,
      ...change,
    })
    expect([after.hold, named(after)]).toEqual([hold, status])
  },
)

const [active, expired, downgraded] = [
  state('none', 'paid'),
  state('none', 'cancelled'),
  state('none', 'partially_refunded'),
]
const [manual, unpaid] = [state('manual', 'paid'), state('none', 'payment_failed')]
const archived = state('plan_archived', 'paid')
const { sold, renewed, returned, repriced, changed, extended } = leads

type Shown = [history: string, to: string, event?: string]
const announced: [
  before: LicenceState,
  after: LicenceState,
  leading: (typeof leads)[keyof typeof leads][],
  Shown[],
][] = [
  [active, active, [], []],
  [active, manual, [], [['suspended', 'suspended', 'licenceSuspended']]],
  [manual, active, [], [['reactivated', 'active', 'licenceReactivated']]],
  [active, expired, [], [['expired', 'expired', 'licenceExpired']]],
  [manual, downgraded, [], [['downgraded', 'downgraded', 'licenceDowngraded']]],
  [expired, state('none', 'refunded'), [], [['revoked', 'revoked', 'licenceRevoked']]],
  [active, state('retired', 'paid'), [], [['retired', 'retired', 'licenceRetired']]],
  // Only the reason changes.
  [unpaid, archived, [], [['suspended', 'suspended']]],
  // A payment.
  [active, active, [sold], [['plan_changed', 'active', 'licencePlanChanged']]],
  [downgraded, active, [sold], [['plan_changed', 'active', 'licencePlanChanged']]],
  [expired, expired, [sold], [['plan_changed', 'expired', 'licencePlanChanged']]],
  [
    active,
    archived,
    [sold],
    [
      ['plan_changed', 'active', 'licencePlanChanged'],
      ['suspended', 'suspended', 'licenceSuspended'],
    ],
  ],
  // A renewal.
  [active, active, [renewed], [['renewed', 'active']]],
  [
    unpaid,
    active,
    [renewed],
    [
      ['renewed', 'suspended'],
      ['reactivated', 'active', 'licenceReactivated'],
    ],
  ],
  [
    unpaid,
    archived,
    [renewed],
    [
      ['renewed', 'suspended'],
      ['suspended', 'suspended'],
    ],
  ],
  [
    expired,
    archived,
    [renewed],
    [
      ['renewed', 'expired'],
      ['suspended', 'suspended', 'licenceSuspended'],
    ],
  ],
  [
    expired,
    active,
    [returned],
    [
      ['renewed', 'expired'],
      ['reactivated', 'active', 'licenceReactivated'],
    ],
  ],
  [expired, manual, [returned], [['renewed', 'suspended']]],
  [expired, downgraded, [returned], [['renewed', 'downgraded']]],
  [
    unpaid,
    active,
    [renewed, repriced],
    [
      ['renewed', 'suspended'],
      ['plan_changed', 'suspended', 'licencePlanChanged'],
      ['reactivated', 'active', 'licenceReactivated'],
    ],
  ],
  // Another purchase of the same plan, or another end.
  [active, active, [changed], [['changed', 'active']]],
  [
    downgraded,
    archived,
    [changed],
    [
      ['changed', 'downgraded'],
      ['suspended', 'suspended', 'licenceSuspended'],
    ],
  ],
  // The vendor gives an expired licence a later end.
  [
    expired,
    active,
    [extended],
    [
      ['changed', 'expired'],
      ['reactivated', 'active', 'licenceReactivated'],
    ],
  ],
  [expired, manual, [extended], [['changed', 'suspended']]],
  [expired, downgraded, [extended], [['changed', 'downgraded']]],
]

test.each(announced)(
  'a change from %o to %o with %o has the history and the events %o',
  (before, after, leading, shown) => {
    const steps = stepsOf(before, after, leading)
    expect(steps.map(({ history, to, emits }) => (emits ? [history, to, emits] : [history, to]))).toEqual(
      shown,
    )
    const froms = [before.status, ...steps.map(({ to }) => to)].slice(0, steps.length)
    expect(steps.map(({ from }) => from)).toEqual(froms)
  },
)
