import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenLicence, givenPlan, raceRounds } from '../testing/makers.ts'
import { activate, callOf, startProducts } from './testing/products.ts'
import type { Products, ProductsHarness } from './testing/products.ts'

let harness: ProductsHarness
let replicas: Products[]
beforeAll(async () => {
  harness = await startProducts()
  replicas = [harness.products, await harness.otherProducts()]
})
afterAll(() => harness[Symbol.asyncDispose]())

const rivals = 50

const replicaFor = (rival: number) => replicas[rival % replicas.length]!

/** How many were let in, and that all others got the same answer. */
function granted(outcomes: PromiseSettledResult<unknown>[]): number {
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  for (const { reason } of refused) expect(reason).toMatchObject({ code: 'limit_reached' })
  return outcomes.length - refused.length
}

async function placesTaken(licence: { id: string }): Promise<number> {
  const detail = await harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })
  return detail.activations.length
}

test(`of ${rivals} installations that ask at once exactly max_activations get a place`, async () => {
  const plan = await givenPlan(harness)
  for (let round = 0; round < raceRounds; round += 1) {
    const maxActivations = 1 + (round % 7)
    const licence = await givenLicence(harness, { planId: plan.id, maxActivations })
    const outcomes = await Promise.allSettled(
      Array.from({ length: rivals }, (_, rival) =>
        activate(replicaFor(rival), licence, { fingerprint: `machine-${rival}` }),
      ),
    )
    expect(granted(outcomes)).toBe(maxActivations)
    expect(await placesTaken(licence)).toBe(maxActivations)
  }
}, 600_000)

test(`${rivals} tries of one fingerprint at once make one activation, created once`, async () => {
  const plan = await givenPlan(harness)
  for (let round = 0; round < raceRounds; round += 1) {
    const licence = await givenLicence(harness, { planId: plan.id, maxActivations: 1 })
    const answers = await Promise.all(
      Array.from({ length: rivals }, (_, rival) =>
        activate(replicaFor(rival), licence, { fingerprint: 'one' }),
      ),
    )
    expect(new Set(answers.map((answer) => answer.grant!.activationId)).size).toBe(1)
    expect(answers.filter((answer) => answer.created)).toHaveLength(1)
    expect(await placesTaken(licence)).toBe(1)
  }
}, 600_000)

test('while places are freed and taken, never more than max_activations are held', async () => {
  const plan = await givenPlan(harness)
  const maxActivations = 3
  const licence = await givenLicence(harness, { planId: plan.id, maxActivations })
  let most = 0
  const done = new AbortController()
  const watch = async () => {
    while (!done.signal.aborted) most = Math.max(most, await placesTaken(licence))
  }
  const refused = new Set<string>()
  const comeAndGo = async (rival: number) => {
    for (let visit = 0; visit < raceRounds; visit += 1) {
      const asked = activate(replicaFor(rival), licence, { fingerprint: `m-${rival}` })
      const answer = await asked.catch((error: { code: string }) => refused.add(error.code))
      if ('grant' in answer) await replicaFor(rival + 1).deactivate(callOf(answer.grant!))
    }
  }
  const watched = watch()
  await Promise.all(Array.from({ length: 10 }, (_, rival) => comeAndGo(rival)))
  done.abort()
  await watched
  expect([...refused]).toEqual(['limit_reached'])
  expect(most).toBeGreaterThan(0)
  expect(most).toBeLessThanOrEqual(maxActivations)
  expect(await placesTaken(licence)).toBe(0)
}, 600_000)
