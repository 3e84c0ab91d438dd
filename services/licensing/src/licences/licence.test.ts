import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { allowedVerbs, expirable, grants, held, lifecycle, transitionOf } from './licence.ts'
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

test('every status is reached, and what is suspended says why', () => {
  const reached = new Set(transitions.map(({ transition }) => transition.to))
  expect(closedSets.licenceStatus.filter((status) => !reached.has(status))).toEqual([])
  for (const { transition } of transitions) {
    expect(transition.reason !== undefined).toBe(transition.to === 'suspended')
  }
})

test('the sets beside the table are those that the decisions name', () => {
  expect(new Set(expirable)).toEqual(new Set(['active', 'suspended', 'downgraded']))
  expect(new Set(held)).toEqual(new Set(['active', 'suspended', 'expired', 'downgraded']))
  expect(closedSets.licenceStatus.filter((status) => grants[status] !== 'nothing')).toEqual([
    'active',
    'downgraded',
  ])
})

test('no cause makes a licence active while its plan is retired, the payment for a plan that is not aside', () => {
  const standings = closedSets.licenceStatus.flatMap((status): Standing[] => [
    { status, status_reason: null, expired_from: null, expired_from_reason: null },
    { status, status_reason: 'payment_failed', expired_from: null, expired_from_reason: null },
    { status, status_reason: 'dispute_inquiry', expired_from: null, expired_from_reason: null },
  ])
  for (const cause of causes.filter((cause) => cause !== 'paymentLanded')) {
    for (const standing of standings) {
      const circumstances = { plan: 'retired', endMoves: true, endAhead: true } as const
      expect(transitionOf(cause, standing, circumstances)?.to).not.toBe('active')
    }
  }
})
