import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { allowedVerbs, expirable, follow, held, lifecycle, statuses } from './licence.ts'
import type { Cause, Standing, Transition } from './licence.ts'

const causes = Object.keys(lifecycle) as Cause[]
const transitions = causes.flatMap((cause) =>
  (lifecycle[cause] as readonly Transition[]).map((transition) => ({ cause, transition })),
)

test('the allowed verbs are those that change something, reactivate only on an active plan', () => {
  expect(allowedVerbs('active', 'active')).toEqual(['suspend', 'revoke', 'retire'])
  expect(allowedVerbs('suspended', 'active')).toEqual(['reactivate', 'revoke', 'retire'])
  expect(allowedVerbs('suspended', 'retired')).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('revoked', 'active')).toEqual(['retire'])
  expect(allowedVerbs('expired', 'active')).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('downgraded', 'active')).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('retired', 'active')).toEqual([])
})

test('nothing leads out of retired, and only retire out of revoked', () => {
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
  expect(new Set(held)).toEqual(new Set(['active', 'suspended', 'expired', 'downgraded']))
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
  const standings = closedSets.licenceStatus.flatMap((status) =>
    reasons.flatMap((status_reason) =>
      formers.map((expired_from): Standing => {
        return { status, status_reason, expired_from, expired_from_reason: null }
      }),
    ),
  )
  const facts = { planDiffers: true, endMoves: true, stands: true, lifts: true }
  for (const cause of causes) {
    for (const standing of standings) {
      for (const clears of [true, false]) {
        const { standing: after } = follow([cause], standing, { plan: 'retired', clears, ...facts })
        const comesToActive = after.status === 'active' && standing.status !== 'active'
        expect({ cause, standing, clears, comesToActive }).toMatchObject({ comesToActive: false })
      }
    }
  }
})
