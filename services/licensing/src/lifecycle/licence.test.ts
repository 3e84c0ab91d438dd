import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { expirable, applyCauses, payable, lifecycle, statuses } from './licence.ts'
import type { Cause, LicenceState, Transition } from './licence.ts'

const causes = Object.keys(lifecycle) as Cause[]
const transitions = causes.flatMap((cause) =>
  (lifecycle[cause] as readonly Transition[]).map((transition) => ({ cause, transition })),
)

test('no transition leaves retired, and only retire leaves revoked', () => {
  const leaving = (status: LicenceStatus) =>
    transitions
      .filter(({ transition }) => transition.to !== 'same' && transition.from.includes(status))
      .map(({ cause }) => cause)
  expect(leaving('retired')).toEqual([])
  expect(leaving('revoked')).toEqual(['retire'])
})

test('every status can be reached, and each suspension has a reason', () => {
  const reached = new Set(transitions.map(({ transition }) => transition.to))
  expect(closedSets.licenceStatus.filter((status) => !reached.has(status))).toEqual([])
  for (const { transition } of transitions) {
    expect(transition.reason !== undefined).toBe(transition.to === 'suspended')
  }
})

test('the lists of statuses are those that the decisions name', () => {
  expect(new Set(expirable)).toEqual(new Set(['active', 'suspended', 'downgraded']))
  expect(new Set(payable)).toEqual(new Set(['active', 'suspended', 'expired', 'downgraded']))
  const statusesWith = (rule: keyof (typeof statuses)['active'], value: unknown) =>
    closedSets.licenceStatus.filter((status) => statuses[status][rule] === value)
  expect(statusesWith('grants', 'values')).toEqual(['active'])
  expect(statusesWith('grants', 'defaults')).toEqual(['downgraded'])
  expect(statusesWith('isOver', true)).toEqual(['revoked', 'retired'])
  expect(statusesWith('canBeRevoked', false)).toEqual(['revoked', 'retired'])
})

test('no cause makes a licence active while its plan is retired', () => {
  const reasons = [null, ...closedSets.suspensionReason]
  const formers = [null, ...closedSets.licenceStatus]
  const states = closedSets.licenceStatus.flatMap((status) =>
    reasons.flatMap((status_reason) =>
      formers.map((expired_from): LicenceState => {
        return { status, status_reason, expired_from, expired_from_reason: null }
      }),
    ),
  )
  const facts = { planDiffers: true, endMoves: true, valid: true }
  for (const cause of causes) {
    for (const state of states) {
      for (const allowsActive of [true, false]) {
        const { state: after } = applyCauses([cause], state, { plan: 'retired', allowsActive, ...facts })
        const comesToActive = after.status === 'active' && state.status !== 'active'
        expect({ cause, state, allowsActive, comesToActive }).toMatchObject({ comesToActive: false })
      }
    }
  }
})
