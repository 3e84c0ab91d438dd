import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  actor,
  firstPage,
  givenLicence,
  givenPlan,
  history,
  verbOn,
  detailOf,
  raceRounds,
  refusal,
  importItems,
  atOnce,
} from '../../test/makers.ts'
import { callOf, givenActivation } from '../../test/products.ts'

const harness = await forFile(startHarness)

function freeing(licence: { id: string }, activationId: string, more: { onlyApplicationId?: string } = {}) {
  return { accountId: harness.accountId, licenceId: licence.id, activationId, actor, ...more }
}

test('the detail has the newest 100 activations and their total number; the list has all in pages', async () => {
  const licence = await givenLicence(harness)
  const ids: string[] = []
  for (let count = 0; count < 105; count += 1) {
    ids.unshift((await givenActivation(harness.products, licence)).activationId)
  }
  const detail = await detailOf(harness, licence)
  expect(detail.activationsTotal).toBe(105n)
  expect(detail.activations.map(({ id }) => id)).toEqual(ids.slice(0, 100))

  const request = { accountId: harness.accountId, licenceId: licence.id }
  const listed: string[] = []
  let page = await harness.licensing.listActivations({ ...request, limit: 40, beforeId: '' })
  for (;;) {
    listed.push(...page.activations.map(({ id }) => id))
    if (!page.hasMore) break
    page = await harness.licensing.listActivations({ ...request, limit: 40, beforeId: listed.at(-1)! })
  }
  expect(listed).toEqual(ids)
  expect(page.activations[0]).toEqual(detail.activations[80])
})

test('a licence without activations has an empty page; an unknown licence is not found', async () => {
  const licence = await givenLicence(harness)
  const list = (more: object) =>
    harness.licensing.listActivations({
      accountId: harness.accountId,
      licenceId: licence.id,
      ...firstPage,
      ...more,
    })
  expect(await list({})).toMatchObject({ activations: [], hasMore: false })
  for (const more of [
    { licenceId: newId('lic') },
    { accountId: newId('acct') },
    { onlyApplicationId: newId('app') },
  ]) {
    await expect(list(more)).rejects.toMatchObject({ code: 'not_found' })
  }
})

test('a freed activation is gone: its refresh is not found, another machine can activate, and the history names the actor', async () => {
  const licence = await givenLicence(harness, { maxActivations: 1 })
  const grant = await givenActivation(harness.products, licence)
  await harness.licensing.freeActivation(freeing(licence, grant.activationId))
  await expect(harness.products.refreshActivation(callOf(grant))).rejects.toMatchObject({ code: 'not_found' })
  await expect(harness.licensing.freeActivation(freeing(licence, grant.activationId))).rejects.toMatchObject({
    code: 'not_found',
  })
  const other = await givenActivation(harness.products, licence)
  await harness.products.deactivate({ activationId: other.activationId, token: other.token })
  const entry = { type: 'activation_freed', from: 'active', to: 'active' }
  expect((await history(harness, licence)).slice(1)).toEqual([
    { ...entry, actor, cause: grant.activationId },
    { ...entry, actor: 'product', cause: other.activationId },
  ])
})

test('an activation can be freed in every status, but only with its own licence, application and account', async () => {
  const plan = await givenPlan(harness)
  const [licence, other] = [
    await givenLicence(harness, { planId: plan.id }),
    await givenLicence(harness, { planId: plan.id }),
  ]
  const { activationId } = await givenActivation(harness.products, licence)
  await harness.licensing.retireLicence(verbOn(harness, licence))
  for (const request of [
    freeing(other, activationId),
    freeing(licence, newId('act')),
    { ...freeing(licence, activationId), accountId: newId('acct') },
    freeing(licence, activationId, { onlyApplicationId: newId('app') }),
  ]) {
    await expect(harness.licensing.freeActivation(request)).rejects.toMatchObject({ code: 'not_found' })
  }
  await harness.licensing.freeActivation(
    freeing(licence, activationId, { onlyApplicationId: harness.applicationId }),
  )
  expect((await history(harness, licence)).at(-1)).toMatchObject({ from: 'retired', to: 'retired' })
})

test('if one activation is freed several times at once, one call succeeds and the history has one entry', async () => {
  const licence = await givenLicence(harness)
  const grant = await givenActivation(harness.products, licence)
  const outcomes = await Promise.allSettled([
    ...Array.from({ length: 8 }, () =>
      harness.licensing.freeActivation(freeing(licence, grant.activationId)),
    ),
    ...Array.from({ length: 8 }, () => harness.products.deactivate(grant)),
  ])
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const types = (await history(harness, licence)).map(({ type }) => type)
  expect(types).toEqual(['issued', 'activation_freed'])
})

test('the detail lists the differences between the licence’s snapshot and its plan', async () => {
  const seats = (value: string) => ({ key: 'seats', kind: 'limit', value, default: '0' })
  const sso = { key: 'sso', kind: 'feature', value: 'true', default: 'false' }
  const plan = await givenPlan(harness, { entitlements: [seats('5'), sso] })
  const licence = await givenLicence(harness, { planId: plan.id })
  expect((await detailOf(harness, licence)).planDrift).toEqual([])
  const entitlements = [seats('9'), { ...sso, key: 'audit' }]
  await givenPlan(harness, { id: plan.id, version: 2n, entitlements })
  const drift = (await detailOf(harness, licence)).planDrift.map(({ key, kind, licenceValue, planValue }) => [
    key,
    kind,
    licenceValue,
    planValue,
  ])
  expect(drift).toEqual([
    ['audit', 'feature', undefined, 'true'],
    ['seats', 'limit', '5', '9'],
    ['sso', 'feature', 'true', undefined],
  ])
})

async function givenImported(): Promise<{ id: string; legacyKey: string }> {
  const plan = await givenPlan(harness)
  const legacyKey = `OLD-${newId('evt')}`
  const { items } = await importItems(harness, [{ legacyKey, planId: plan.id }])
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

test('if many first exchanges race, one is in the history', async () => {
  const replicas = [harness.products, (await harness.replica()).products]
  for (let round = 0; round < raceRounds; round += 1) {
    const { id, legacyKey } = await givenImported()
    const answers = await atOnce(20, (rival) =>
      replicas[rival % 2]!.migrateLegacyKey({ applicationId: harness.applicationId, legacyKey }),
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
