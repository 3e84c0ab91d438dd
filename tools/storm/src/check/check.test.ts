import { expect, test } from 'vitest'
import type { Outcome } from '../outcome.ts'
import { check, rules, type RuleName } from './check.ts'
import { goodOutcome } from './testing/good-outcome.ts'
import { catalogSabotages } from './testing/sabotages/catalog.ts'
import { deliverySabotages, eventSabotages } from './testing/sabotages/events.ts'
import { historySabotages } from './testing/sabotages/histories.ts'
import { licenceSabotages } from './testing/sabotages/licences.ts'
import { figureSabotages, moneySabotages } from './testing/sabotages/money.ts'
import type { Sabotage } from './testing/sabotages/sabotage.ts'

const sabotages: Sabotage[] = [
  ...licenceSabotages,
  ...historySabotages,
  ...catalogSabotages,
  ...eventSabotages,
  ...deliverySabotages,
  ...moneySabotages,
  ...figureSabotages,
]

const seen = (outcome: Outcome) => new Set(check(outcome).map(({ rule }) => rule))

test('a correct outcome has no violation', () => {
  expect(check(goodOutcome())).toEqual([])
})

test.for(sabotages)('it sees $what', ({ change, rule }) => {
  const outcome = goodOutcome()
  change(outcome)
  expect(outcome, 'the sabotage changes nothing').not.toEqual(goodOutcome())
  expect(seen(outcome)).toContain(rule)
})

test('each rule is broken by at least one sabotage, and there are at least thirty sabotages', () => {
  const covered = new Set(sabotages.map(({ rule }) => rule))
  expect((Object.keys(rules) as RuleName[]).filter((rule) => !covered.has(rule))).toEqual([])
  expect(sabotages.length).toBeGreaterThanOrEqual(30)
  expect(new Set(sabotages.map(({ what }) => what)).size).toBe(sabotages.length)
})
