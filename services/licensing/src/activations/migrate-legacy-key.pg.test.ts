import { newId } from '@licensing/database/ids'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { actor, givenPlan, history, raceRounds, refusal, verbOn } from '../../test/makers.ts'
import { givenActivation, startProducts } from '../../test/products.ts'
import type { ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())

async function givenImported(): Promise<{ id: string; legacyKey: string }> {
  const plan = await givenPlan(harness)
  const legacyKey = `OLD-${newId('evt')}`
  const { accountId, applicationId } = harness
  const { items } = await harness.licensing.importLicences({
    accountId,
    applicationId,
    actor,
    dryRun: false,
    items: [{ legacyKey, externalRef: 'customer', planId: plan.id }],
  })
  return { id: items[0]!.licenceId!, legacyKey }
}

const migrate = (legacyKey: string, applicationId = harness.applicationId) =>
  harness.products.migrateLegacyKey({ applicationId, legacyKey })

test('a legacy key can be exchanged any number of times for its licence and a key that activates', async () => {
  const { id, legacyKey } = await givenImported()
  const answer = await migrate(legacyKey)
  const { licenceId, key } = answer
  expect(Object.keys(answer).sort()).toEqual(['$typeName', 'key', 'licenceId'])
  expect(licenceId).toBe(id)
  expect(await migrate(legacyKey)).toMatchObject({ licenceId, key })
  expect((await givenActivation(harness.products, { key })).licenceId).toBe(id)
})

test('only the first exchange is in the history', async () => {
  const { id, legacyKey } = await givenImported()
  await migrate(legacyKey)
  await migrate(legacyKey)
  expect(await history(harness, { id })).toEqual([
    { type: 'imported', from: undefined, to: 'active', actor, cause: undefined },
    { type: 'migrated', from: 'active', to: 'active', actor: 'product', cause: undefined },
  ])
})

test('if many first exchanges race, one is in the history', async () => {
  const replicas = [harness.products, await harness.otherProducts()]
  for (let round = 0; round < raceRounds; round += 1) {
    const { id, legacyKey } = await givenImported()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, rival) =>
        replicas[rival % 2]!.migrateLegacyKey({ applicationId: harness.applicationId, legacyKey }),
      ),
    )
    expect(new Set(answers.map((answer) => answer.key)).size).toBe(1)
    const types = (await history(harness, { id })).map((entry) => entry.type)
    expect(types).toEqual(['imported', 'migrated'])
  }
}, 900_000)

test.each(['suspend', 'revoke', 'retire'] as const)(
  'a licence after %s is migrated all the same',
  async (verb) => {
    const { id, legacyKey } = await givenImported()
    const { licensing } = harness
    const verbs = {
      suspend: () => licensing.suspendLicence(verbOn(harness, { id })),
      revoke: () => licensing.revokeLicence(verbOn(harness, { id })),
      retire: () => licensing.retireLicence(verbOn(harness, { id })),
    }
    const { status } = await verbs[verb]()
    expect(await migrate(legacyKey)).toMatchObject({ licenceId: id })
    expect((await history(harness, { id })).at(-1)).toMatchObject({
      type: 'migrated',
      from: status,
      to: status,
    })
  },
)

test('an unknown legacy key, or another application’s, is not found', async () => {
  const { legacyKey } = await givenImported()
  for (const wrong of ['none', '', legacyKey.toLowerCase(), 'a\u0000b', 'x'.repeat(10_000)]) {
    expect(await refusal(migrate(wrong))).toMatchObject({ code: 'not_found' })
  }
  expect(await refusal(migrate(legacyKey, newId('app')))).toMatchObject({ code: 'not_found' })
})
