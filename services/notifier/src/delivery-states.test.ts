import { closedSets } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { deliveryTransitions, outcomeOf } from './delivery-states.ts'

const attempts = { isDelivered: false, isReplay: false, isLast: false }

test.each([
  [{ ...attempts, isDelivered: true }, true, 'acknowledged'],
  [{ ...attempts, isDelivered: true }, false, 'acknowledged'],
  [{ ...attempts, isDelivered: true, isReplay: true }, true, 'acknowledged'],
  [attempts, true, 'attempt_failed'],
  [{ ...attempts, isLast: true }, true, 'last_attempt_failed'],
  [{ ...attempts, isReplay: true }, true, 'extra_attempt_failed'],
  [attempts, false, 'extra_attempt_failed'],
  [{ ...attempts, isLast: true }, false, 'extra_attempt_failed'],
])('the attempt %j of a sender that has the claim (%s) is %s', (attempt, hasClaim, outcome) => {
  expect(outcomeOf(attempt, hasClaim)).toBe(outcome)
})

const rows = [
  ['acknowledged', 'pending', 'delivered', 'cancelled'],
  ['acknowledged', 'delivered', 'delivered', 'cancelled'],
  ['acknowledged', 'failed', 'delivered', 'cancelled'],
  ['attempt_failed', 'pending', 'pending', 'scheduled'],
  ['attempt_failed', 'delivered', 'delivered', 'cancelled'],
  ['attempt_failed', 'failed', 'failed', 'cancelled'],
  ['last_attempt_failed', 'pending', 'failed', 'cancelled'],
  ['last_attempt_failed', 'delivered', 'delivered', 'cancelled'],
  ['last_attempt_failed', 'failed', 'failed', 'cancelled'],
  ['extra_attempt_failed', 'pending', 'pending', 'unchanged'],
  ['extra_attempt_failed', 'delivered', 'delivered', 'unchanged'],
  ['extra_attempt_failed', 'failed', 'failed', 'unchanged'],
  ['abandoned', 'pending', 'failed', 'cancelled'],
  ['abandoned', 'delivered', 'delivered', 'cancelled'],
  ['abandoned', 'failed', 'failed', 'cancelled'],
] as const

test.each(rows)('%s: a %s delivery is then %s, and its next retry is %s', (outcome, from, to, retry) => {
  expect(deliveryTransitions[outcome][from]).toEqual({ to, retry })
})

test('these are all rows of the table', () => {
  const outcomes = Object.keys(deliveryTransitions)
  expect(rows).toHaveLength(outcomes.length * closedSets.deliveryStatus.length)
})
