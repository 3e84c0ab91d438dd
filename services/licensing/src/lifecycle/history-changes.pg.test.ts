import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenLicence, givenPlan, newest } from '../../test/makers.ts'
import { insertHistory } from './history-queries.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test('an entry of type changed says what changed, from what to what; every other entry has no changes', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const changes = {
    external_ref: { from: 'old', to: 'new "quoted" ü' },
    expires_on: { from: null, to: '2030-01-31T00:00:00.000Z' },
    restrictions: { from: { domains: ['a.example'], max_activations: 2, max_seats: null }, to: null },
  }
  await insertHistory(harness.sql, [
    { licenceId: licence.id, type: 'changed', from: 'active', to: 'active', actor: 'key_test', changes },
  ])
  const { entries } = await harness.licensing.listLicenceHistory({
    accountId: harness.accountId,
    licenceId: licence.id,
    ...newest,
  })
  expect(entries.map(({ type }) => type)).toEqual(['changed', 'issued'])
  expect(JSON.parse(entries[0]!.changesJson!)).toEqual(changes)
  expect(entries[1]!.changesJson).toBeUndefined()
})
