import { fullTest } from '@licensing/test-support/drawn'
import { keyed } from '@licensing/changes/testing/keyed'
import { expect, test } from 'vitest'
import {
  actor,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  events,
  history,
  refusal,
  verbOn,
  detailOf,
  importItems,
} from '../../test/makers.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { activate, callOf, givenActivation } from '../../test/products.ts'

const harness = await forFile(startHarness)

const rotate = (licence: { id: string }) => harness.licensing.rotateLicenceKey(verbOn(harness, licence))
const rotateOnce = (licence: { id: string }, key: string) =>
  keyed(`/v1/licences/${licence.id}/rotate-key`, () => rotate(licence), { key })
const given = async () => givenLicence(harness, { planId: (await givenPlan(harness)).id })
const search = async (q: string) => {
  const { accountId, applicationId } = harness
  const { found } = await harness.licensing.searchLicences({ accountId, applicationId, query: q })
  return found.map(({ licence }) => licence!.id)
}

fullTest('the new key activates, and the former one is unknown at once, on every replica', async () => {
  const licence = await given()
  const other = (await harness.replica()).products
  const activation = await givenActivation(harness.products, licence)
  const rotated = await rotate(licence)
  expect(rotated).toEqual({ ...licence, key: rotated.key, updatedAt: rotated.updatedAt })
  expect(rotated.key).toMatch(/^([0-9A-Z]{5}-){4}[0-9A-Z]{5}$/)
  expect(rotated.key).not.toBe(licence.key)
  for (const products of [harness.products, other]) {
    expect(await refusal(activate(products, licence))).toMatchObject({ code: 'not_found' })
    expect(await activate(products, rotated)).toMatchObject({ created: true })
  }
  // The activation and its token stay valid.
  const renewed = await harness.products.refreshActivation(callOf(activation))
  expect(renewed.activationId).toBe(activation.activationId)
  expect([await search(licence.key), await search(rotated.key)]).toEqual([[], [licence.id]])
  expect((await detailOf(harness, licence)).licence).toEqual(rotated)
})

test('the history has the rotation without the keys, and no event is sent', async () => {
  const licence = await given()
  const rotated = await rotate(licence)
  expect((await history(harness, licence)).at(-1)).toEqual({
    type: 'key_rotated',
    from: 'active',
    to: 'active',
    actor,
    cause: undefined,
  })
  const rows = await harness.sql`select * from licence_history where licence_id = ${licence.id}`
  expect(JSON.stringify(rows, (_, value: unknown) => String(value))).not.toContain(rotated.key)
  expect(await events(harness, licence)).toEqual([])
})

test('an imported licence’s legacy key leads to the new key', async () => {
  const plan = await givenPlan(harness)
  const imported = await importItems(harness, [{ legacyKey: 'legacy', planId: plan.id }])
  const licence = { id: imported.items[0]!.licenceId! }
  const { key } = await rotate(licence)
  const legacy = { applicationId: harness.applicationId, legacyKey: 'legacy' }
  expect(await harness.products.migrateLegacyKey(legacy)).toMatchObject({ licenceId: licence.id, key })
})

test('a repetition returns the key of the first answer, even if the key was rotated again since', async () => {
  const licence = await given()
  const first = await rotateOnce(licence, 'a')
  const second = await rotateOnce(licence, 'b')
  expect(second.value.key).not.toBe(first.value.key)
  expect(await rotateOnce(licence, 'a')).toEqual({ replayed: true, value: first.value })
  expect((await detailOf(harness, licence)).licence!.key).toBe(second.value.key)
  expect(await history(harness, licence)).toHaveLength(3)
})

test('every status but revoked and retired allows a rotation', async () => {
  const plan = await givenPlan(harness)
  for (const status of ['suspended', 'expired', 'downgraded'] as const) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    expect(await rotate(licence)).toMatchObject({ status })
  }
  for (const [status, allowed] of [
    ['revoked', ['retire']],
    ['retired', []],
  ] as const) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    expect(await refusal(rotate(licence))).toMatchObject({
      code: 'conflict',
      members: { current: status, allowed },
    })
    expect((await detailOf(harness, licence)).licence!.key).toBe(licence.key)
  }
  const elsewhere = { ...verbOn(harness, await given()), onlyApplicationId: 'app_other' }
  expect(await refusal(harness.licensing.rotateLicenceKey(elsewhere))).toMatchObject({ code: 'not_found' })
})
