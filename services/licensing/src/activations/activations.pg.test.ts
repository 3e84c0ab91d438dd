import { newId } from '@licensing/database/ids'
import { closedSets } from '@licensing/proto/closed-sets'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  actor,
  archive,
  firstPage,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
} from '../../test/makers.ts'
import { callOf, givenActivation } from '../../test/products.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

const detailOf = (licence: { id: string }) =>
  harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })

function freeing(licence: { id: string }, activationId: string, more: { onlyApplicationId?: string } = {}) {
  return { accountId: harness.accountId, licenceId: licence.id, activationId, actor, ...more }
}

test('the detail has the newest 100 activations and their total number; the list has all in pages', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const ids: string[] = []
  for (let count = 0; count < 105; count += 1) {
    ids.unshift((await givenActivation(harness.products, licence)).activationId)
  }
  const detail = await detailOf(licence)
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
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
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
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id, maxActivations: 1 })
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
  await harness.licensing.retireLicence({ accountId: harness.accountId, licenceId: licence.id, actor })
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
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
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

test('if an activation is freed while the licence changes, the history has the order of the commits', async () => {
  const plan = await givenPlan(harness)
  for (let round = 0; round < 10; round += 1) {
    const licence = await givenLicence(harness, { planId: plan.id })
    const grants = [
      await givenActivation(harness.products, licence),
      await givenActivation(harness.products, licence),
    ]
    const verb = { accountId: harness.accountId, licenceId: licence.id, actor }
    await Promise.all([
      harness.licensing.suspendLicence(verb).then(() => harness.licensing.reactivateLicence(verb)),
      ...grants.map(({ activationId }) => harness.licensing.freeActivation(freeing(licence, activationId))),
    ])
    const entries = await history(harness, licence)
    expect(entries).toHaveLength(5)
    for (const [place, { from }] of entries.entries()) expect(from).toBe(entries[place - 1]?.to)
  }
})

test.each(closedSets.licenceStatus)(
  'the detail of a licence that is %s names the verbs that would change it',
  async (status) => {
    const allowed = {
      active: ['suspend', 'revoke', 'retire'],
      suspended: ['reactivate', 'revoke', 'retire'],
      expired: ['revoke', 'retire'],
      downgraded: ['revoke', 'retire'],
      revoked: ['retire'],
      retired: [],
    }
    const plan = await givenPlan(harness)
    const licence = await givenLicenceIn(harness, status, plan.id)
    expect((await detailOf(licence)).allowed).toEqual(allowed[status])
    await archive(harness, plan)
    const onRetired = status === 'active' ? 'suspended' : status
    expect((await detailOf(licence)).allowed).toEqual(
      allowed[onRetired].filter((verb) => verb !== 'reactivate'),
    )
  },
)

test('the detail lists the differences between the licence’s snapshot and its plan', async () => {
  const seats = (value: string) => ({ key: 'seats', kind: 'limit', value, default: '0' })
  const sso = { key: 'sso', kind: 'feature', value: 'true', default: 'false' }
  const plan = await givenPlan(harness, { entitlements: [seats('5'), sso] })
  const licence = await givenLicence(harness, { planId: plan.id })
  expect((await detailOf(licence)).planDrift).toEqual([])
  const entitlements = [seats('9'), { ...sso, key: 'audit' }]
  await givenPlan(harness, { id: plan.id, version: 2n, entitlements })
  const drift = (await detailOf(licence)).planDrift.map(({ key, kind, licenceValue, planValue }) => [
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
