import { toBinary } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { ListPlansResponseSchema } from '@licensing/proto/catalog'
import { beforeEach, expect, test } from 'vitest'
import {
  actor,
  catalogOfFile,
  eventsOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  insertDefinitions,
  insertPlans,
  outcomeOf,
  outcomesOf,
  planChange,
  resolved,
} from '../../test/catalog.ts'
import type { Tenant, TestCatalog } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing, sql } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('a plan is created with its overrides, and licensing gets a copy with all its entitlements', async () => {
  const ids = await givenDefinitions(catalog, tenant, { seats: '3', sso: 'false', api: 'true' })
  const plan = await givenPlan(catalog, tenant, 'pro', { sso: 'true', seats: '3' })
  expect(plan).toMatchObject({
    applicationId: tenant.applicationId,
    name: 'pro',
    code: 'pro',
    status: 'active',
    activeLicences: 0n,
    entitlements: [
      { entitlementDefId: ids.seats, value: '3' },
      { entitlementDefId: ids.sso, value: 'true' },
    ],
  })
  const copy = licensing.copies.get(plan.id)!
  expect(copy).toMatchObject({ ...tenant, status: 'active', version: 1n, archiveVersion: 0n, archivedBy: '' })
  expect(copy.entitlements).toMatchObject([
    { key: 'api', kind: 'feature', value: 'true', default: 'true' },
    { key: 'seats', kind: 'limit', value: '3', default: '3' },
    { key: 'sso', kind: 'feature', value: 'true', default: 'false' },
  ])
  expect(await calls.getPlan({ ...tenant, planId: plan.id })).toEqual(plan)
})

test('a PATCH changes only the fields that it names; an empty one changes nothing', async () => {
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5' })
  const path = { ...tenant, planId: plan.id }
  const before = await eventsOf(catalog, tenant)
  expect(await calls.updatePlan(path)).toEqual(plan)
  const renamed = await calls.updatePlan({ ...path, ...planChange({ name: 'Professional' }) })
  expect(renamed).toMatchObject({ name: 'Professional', code: 'pro', entitlements: plan.entitlements })
  expect(await eventsOf(catalog, tenant)).toEqual(before)
  const recoded = await calls.updatePlan({ ...path, ...planChange({ code: 'pro-2' }) })
  expect(recoded).toMatchObject({ name: 'Professional', code: 'pro-2', entitlements: plan.entitlements })
  expect(licensing.copies.get(plan.id)).toMatchObject({ code: 'pro-2', version: 2n })
  expect(await eventsOf(catalog, tenant)).toHaveLength(before.length + 1)
  expect(resolved(catalog, plan.id)).toEqual({ seats: '5' })
})

test('the list of a PATCH replaces all overrides; an omitted key has its default again, an empty list clears all', async () => {
  const ids = await givenDefinitions(catalog, tenant, { seats: '1', sso: 'false', api: '10' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5', sso: 'true' })
  const patch = (overrides: Record<string, string>) =>
    calls.updatePlan({
      ...tenant,
      planId: plan.id,
      entitlements: { overrides: Object.entries(overrides).map(([key, value]) => ({ key, value })) },
    })
  const changed = await patch({ sso: 'true', api: '99' })
  expect(changed.entitlements).toMatchObject([
    { entitlementDefId: ids.api, value: '99' },
    { entitlementDefId: ids.sso, value: 'true' },
  ])
  expect(resolved(catalog, plan.id)).toEqual({ api: '99', seats: '1', sso: 'true' })
  expect((await patch({})).entitlements).toEqual([])
  expect(resolved(catalog, plan.id)).toEqual({ api: '10', seats: '1', sso: 'false' })
  expect(licensing.copies.get(plan.id)!.version).toBe(3n)
})

test('an invalid list is refused, and the request changes nothing', async () => {
  await givenDefinitions(catalog, tenant, { seats: '1', sso: 'false' })
  const otherTenant = await givenTenant(catalog)
  await givenDefinitions(catalog, otherTenant, { theirs: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5' })
  const refusals: [Record<string, string>, string][] = [
    [{ seats: '6', nope: '1' }, '/entitlements/1/key'],
    [{ theirs: '1' }, '/entitlements/0/key'],
    [{ 'nul\0': '1' }, '/entitlements/0/key'],
    [{ '': '', sso: 'yes' }, '/entitlements/0/key /entitlements/1/value'],
  ]
  for (const [list, pointers] of refusals) {
    const overrides = Object.entries(list).map(([key, value]) => ({ key, value }))
    const patch = { ...tenant, planId: plan.id, ...planChange({ name: '' }), entitlements: { overrides } }
    expect(await outcomeOf(calls.updatePlan(patch))).toBe(`validation_failed /name ${pointers}`)
    const made = { ...tenant, fields: { name: 'x' }, entitlements: overrides }
    expect(await outcomeOf(calls.createPlan(made))).toBe(`validation_failed /code ${pointers}`)
  }
  expect((await calls.listPlans({ ...tenant, ...firstPage })).plans).toEqual([plan])
})

test('a name or code that breaks the rules is refused, on create and PATCH', async () => {
  const plan = await givenPlan(catalog, tenant)
  const made = { ...tenant, ...planChange({ name: '', code: 'a b' }) }
  expect(await outcomeOf(calls.createPlan(made))).toBe('validation_failed /name /code')
  expect(await outcomeOf(calls.updatePlan({ ...made, planId: plan.id }))).toBe(
    'validation_failed /name /code',
  )
})

test('a code is unique in its application, including retired plans, on create and PATCH', async () => {
  const other = await givenTenant(catalog)
  const plan = await givenPlan(catalog, tenant, 'pro')
  await calls.archivePlan({ ...tenant, planId: plan.id, actor })
  const refused = { code: 'already_exists', message: expect.stringContaining('the plan code pro is in use') }
  await expect(givenPlan(catalog, tenant, 'pro')).rejects.toMatchObject(refused)
  await givenPlan(catalog, other, 'pro')
  const second = await givenPlan(catalog, tenant, 'Pro')
  const patch = { ...tenant, planId: second.id, ...planChange({ code: 'pro', name: 'x' }) }
  await expect(calls.updatePlan(patch)).rejects.toMatchObject(refused)
  expect(await calls.getPlan({ ...tenant, planId: second.id })).toEqual(second)
})

test('a page of plans is newest first, can be filtered by status, and has the active licences of each', async () => {
  const plans = []
  for (const code of ['a', 'b', 'c', 'd']) plans.push(await givenPlan(catalog, tenant, code))
  await calls.archivePlan({ ...tenant, planId: plans[1]!.id, actor })
  licensing.active.set(plans[3]!.id, 7n)
  licensing.active.set(plans[0]!.id, 100_000_000_000n)
  const list = async (request: object) => {
    const { plans, hasMore } = await calls.listPlans({ ...tenant, ...firstPage, ...request })
    return [
      ...plans.map(({ code, activeLicences }) => `${code}:${activeLicences}`),
      ...(hasMore ? ['more'] : []),
    ]
  }
  expect(await list({})).toEqual(['d:7', 'c:0', 'b:0', 'a:100000000000'])
  expect(await list({ limit: 2 })).toEqual(['d:7', 'c:0', 'more'])
  expect(await list({ limit: 2, beforeId: plans[2]!.id })).toEqual(['b:0', 'a:100000000000'])
  expect(await list({ status: 'active' })).toEqual(['d:7', 'c:0', 'a:100000000000'])
  expect(await list({ status: 'retired' })).toEqual(['b:0'])
  expect(await outcomeOf(list({ status: 'sold' }))).toBe('validation_failed /status')
})

test('a page of plans with very many values is shorter than the limit, and no plan is skipped', async () => {
  const keys = Array.from({ length: 500 }, (_, at) => `key_${at}`)
  const definitions = await insertDefinitions(catalog, tenant, keys)
  const plans = await insertPlans(catalog, tenant, 45)
  await sql`
    insert into plan_overrides (plan_id, definition_id, application_id, value)
    select plan, definition, ${tenant.applicationId}, '123456789012345'
    from unnest(${plans}::text[]) as plan, unnest(${definitions}::text[]) as definition`
  const sizes = await sizesOfPages(catalog, tenant, plans)
  expect(sizes.length).toBeGreaterThan(1)
  expect(Math.max(...sizes)).toBeLessThan(1_200_000)
})

test('a page of plans with much metadata is shorter than the limit, and no plan is skipped', async () => {
  const large = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`n${at}`, '😀'.repeat(500)]))
  const plans = await insertPlans(catalog, tenant, 100, large)
  const sizes = await sizesOfPages(catalog, tenant, plans)
  expect(Math.max(...sizes)).toBeLessThan(4_000_000)
})

/** Reads the pages of plans, which must have these plans. @returns their sizes in bytes */
async function sizesOfPages({ calls }: TestCatalog, tenant: Tenant, plans: string[]): Promise<number[]> {
  const seen: string[] = []
  const sizes: number[] = []
  for (let hasMore = true; hasMore;) {
    const page = await calls.listPlans({ ...tenant, limit: 200, beforeId: seen.at(-1) ?? '' })
    seen.push(...page.plans.map(({ id }) => id))
    sizes.push(toBinary(ListPlansResponseSchema, page).length)
    hasMore = page.hasMore
  }
  expect(seen).toEqual(plans.toReversed())
  return sizes
}

test('a plan of another account, one of another application and an unknown one are not found, by any verb', async () => {
  const otherTenant = await givenTenant(catalog)
  const second = await calls.createApplication({ accountId: tenant.accountId, name: 'second' })
  const plan = await givenPlan(catalog, tenant)
  for (const path of [
    { ...otherTenant, planId: plan.id },
    { ...tenant, accountId: otherTenant.accountId, planId: plan.id },
    { ...tenant, applicationId: second.id, planId: plan.id },
    { ...tenant, applicationId: otherTenant.applicationId, planId: plan.id },
    { ...tenant, planId: newId('pln') },
    { ...tenant, planId: 'pln_\0' },
  ]) {
    const attempts = [
      calls.getPlan(path),
      calls.updatePlan({ ...path, ...planChange({ name: 'x' }) }),
      calls.archivePlan({ ...path, actor }),
      calls.restorePlan(path),
      calls.getPlanCopy(path),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'not_found'))
  }
  expect(await calls.getPlan({ ...tenant, planId: plan.id })).toEqual(plan)
})
