import { transaction } from '@licensing/database/transaction'
import type { Plan } from '@licensing/proto/catalog'
import { isFull } from '@licensing/test-support/drawn'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { beforeEach, expect, test } from 'vitest'
import { lockApplication } from '../applications/application-queries.ts'
import { updateDefinitionRow } from '../entitlements/definition-queries.ts'
import { incrementVersions } from '../plan-copies/plan-copy-queries.ts'
import {
  actor,
  catalogOfFile,
  changesOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  outcomesOf,
  planChange,
  resolved,
} from '../../test/catalog.ts'
import type { Tenant, TestCatalog } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

const rounds = isFull ? 12 : 3

/** `count` callers at once, spread over both replicas. */
function atOnce(
  catalog: TestCatalog,
  count: number,
  call: (calls: TestCatalog['calls'], at: number) => Promise<unknown>,
): Promise<string[]> {
  return outcomesOf(Array.from({ length: count }, (_, at) => call(catalog.replicas[at % 2]!, at)))
}

function counted(outcomes: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}

test('if twenty callers create a plan with the same code, one succeeds', async () => {
  for (let round = 0; round < rounds; round += 1) {
    const plan = { ...tenant, fields: { name: 'x', code: `code-${round}` } }
    expect(counted(await atOnce(catalog, 20, (calls) => calls.createPlan(plan)))).toEqual({
      ok: 1,
      already_exists: 19,
    })
  }
  expect((await catalog.calls.listPlans({ ...tenant, ...firstPage })).plans).toHaveLength(rounds)
})

test('if twenty plans are given the same code by PATCH, one gets it', async () => {
  const plans: Plan[] = []
  for (let at = 0; at < 20; at += 1) plans.push(await givenPlan(catalog, tenant, `plan-${at}`))
  const outcomes = await atOnce(catalog, 20, (calls, at) =>
    calls.updatePlan({ ...tenant, planId: plans[at]!.id, ...planChange({ code: 'wanted' }) }),
  )
  expect(counted(outcomes)).toEqual({ ok: 1, already_exists: 19 })
})

test('if fifty callers define the same key, one succeeds, and the key keeps its kind permanently', async () => {
  await givenPlan(catalog, tenant)
  for (let round = 0; round < rounds; round += 1) {
    const key = `key_${round}`
    const outcomes = await atOnce(catalog, 50, (calls, at) =>
      calls.createEntitlementDefinition({ ...tenant, key, kind: at % 3 === 0 ? 'limit' : 'feature' }),
    )
    expect(counted(outcomes)).toEqual({ ok: 1, already_exists: 49 })
  }
  const { definitions } = await catalog.calls.listEntitlementDefinitions({ ...tenant, ...firstPage })
  expect(definitions).toHaveLength(rounds)
  const kept = await catalog.sql<{ key: string; kind: string }[]>`
    select key, kind from entitlement_keys where application_id = ${tenant.applicationId}`
  expect(new Map(kept.map(({ key, kind }) => [key, kind]))).toEqual(
    new Map(definitions.map(({ key, kind }) => [key, kind])),
  )
})

test('one of several concurrent archives succeeds, and one of several concurrent restores', async () => {
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  for (let round = 0; round < rounds; round += 1) {
    const archives = await atOnce(catalog, 8, (calls) => calls.archivePlan({ ...path, actor }))
    expect(counted(archives)).toEqual({ ok: 1, conflict: 7 })
    const restores = await atOnce(catalog, 8, (calls) => calls.restorePlan(path))
    expect(counted(restores)).toEqual({ ok: 1, conflict: 7 })
  }
  expect(catalog.licensing.copies.get(path.planId)!.version).toBe(1n + 2n * BigInt(rounds))
})

test('after concurrent archives and restores, catalog, licensing and the events agree', async () => {
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  for (let round = 0; round < rounds; round += 1) {
    const outcomes = await atOnce(catalog, 12, (calls, at) =>
      at % 3 === 0 ? calls.restorePlan(path) : calls.archivePlan({ ...path, actor }),
    )
    expect(Object.keys(counted(outcomes)).filter((code) => code !== 'ok' && code !== 'conflict')).toEqual([])
    const { status } = await catalog.calls.getPlan(path)
    const versions = (await changesOf(catalog, tenant)).map(({ version }) => version)
    expect(versions).toEqual(versions.map((_, at) => BigInt(at + 1)))
    expect(catalog.licensing.copies.get(path.planId)).toMatchObject({ status, version: versions.at(-1) })
  }
})

test('plans that are patched while a definition is deleted and recreated have the committed values', async () => {
  const plans: Plan[] = []
  for (const code of ['a', 'b', 'c']) plans.push(await givenPlan(catalog, tenant, code))
  for (let round = 0; round < rounds; round += 1) {
    const { seats } = await givenDefinitions(catalog, tenant, { seats: String(round) })
    const outcomes = await atOnce(catalog, 18, (calls, at) =>
      at === 9
        ? calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: seats! })
        : calls.updatePlan({
            ...tenant,
            planId: plans[at % 3]!.id,
            entitlements: { overrides: [{ key: 'seats', value: String(100 + at) }] },
          }),
    )
    const wrong = ['ok', 'validation_failed /entitlements/0/key']
    expect(outcomes.filter((outcome) => !wrong.includes(outcome))).toEqual([])
    expect(outcomes[9]).toBe('ok')
    for (const plan of plans) {
      expect(resolved(catalog, plan.id)).toEqual({})
      expect((await catalog.calls.getPlan({ ...tenant, planId: plan.id })).entitlements).toEqual([])
    }
  }
})

test('a PATCH that runs beside changes of definitions never leaves outdated values in licensing', async () => {
  const ids = await givenDefinitions(catalog, tenant, { seats: '0', users: '0' })
  const plans: Plan[] = []
  for (const code of ['a', 'b']) plans.push(await givenPlan(catalog, tenant, code))
  for (let round = 1; round <= rounds; round += 1) {
    const outcomes = await atOnce(catalog, 12, (calls, at) => {
      const value = String(round * 100 + at)
      if (at % 3 === 0) {
        return calls.updateEntitlementDefinition({ ...tenant, entitlementDefId: ids.users!, default: value })
      }
      const entitlements = { overrides: [{ key: 'seats', value }] }
      return calls.updatePlan({ ...tenant, planId: plans[at % 2]!.id, entitlements })
    })
    expect(counted(outcomes)).toEqual({ ok: 12 })
    const users = await catalog.calls.getEntitlementDefinition({ ...tenant, entitlementDefId: ids.users! })
    for (const { id } of plans) {
      const plan = await catalog.calls.getPlan({ ...tenant, planId: id })
      expect(resolved(catalog, id)).toEqual({ seats: plan.entitlements[0]!.value, users: users.default })
      const copy = await catalog.calls.getPlanCopy({ ...tenant, planId: id })
      expect(catalog.licensing.copies.get(id)).toEqual(copy)
    }
  }
})

test('when a PATCH is answered, licensing has its values', async () => {
  await givenDefinitions(catalog, tenant, { seats: '0' })
  const { id: planId } = await givenPlan(catalog, tenant)
  for (let round = 0; round < 20; round += 1) {
    await atOnce(catalog, 4, async (calls, at) => {
      const value = String(round * 4 + at)
      await calls.updatePlan({ ...tenant, planId, entitlements: { overrides: [{ key: 'seats', value }] } })
      const held = catalog.licensing.copies.get(planId)!
      // Either this value, or one committed later.
      const mine = catalog.licensing.synced.find(
        ({ id, entitlements }) => id === planId && entitlements[0]!.value === value,
      )!
      expect(held.version).toBeGreaterThanOrEqual(mine.version)
    })
  }
})

test('concurrent changes of all kinds do not deadlock', async () => {
  const deadlocks = async () => {
    const [row] = await catalog.sql<{ deadlocks: bigint }[]>`
      select deadlocks from pg_stat_database where datname = current_database()`
    return row!.deadlocks
  }
  const before = await deadlocks()
  const ids = await givenDefinitions(catalog, tenant, { seats: '0' })
  const plans: Plan[] = []
  for (const code of ['a', 'b', 'c', 'd']) plans.push(await givenPlan(catalog, tenant, code))
  const outcomes = await atOnce(catalog, 120, (calls, at) => {
    const path = { ...tenant, planId: plans[at % 4]!.id }
    const kinds = [
      () => calls.updatePlan({ ...path, ...planChange({ name: `name ${at}` }) }),
      () => calls.updatePlan({ ...path, entitlements: { overrides: [{ key: 'seats', value: String(at) }] } }),
      () => calls.archivePlan({ ...path, actor }),
      () => calls.restorePlan(path),
      () =>
        calls.updateEntitlementDefinition({ ...tenant, entitlementDefId: ids.seats!, default: String(at) }),
      () => calls.createEntitlementDefinition({ ...tenant, key: `key_${at}`, kind: 'feature' }),
      () => calls.createPlan({ ...tenant, fields: { name: 'x', code: `code-${at}` } }),
      () => calls.createApiKey({ ...tenant, name: 'x', scopes: ['read'] }),
      () => calls.listPlans({ ...tenant, ...firstPage }),
    ]
    return kinds[at % kinds.length]!()
  })
  expect(outcomes.filter((outcome) => outcome !== 'ok' && outcome !== 'conflict')).toEqual([])
  expect(await deadlocks()).toBe(before)
})

test('a PATCH waits for a change of a definition on another replica, and has its value', async () => {
  const { users } = await givenDefinitions(catalog, tenant, { seats: '0', users: '0' })
  const { id: planId } = await givenPlan(catalog, tenant)
  const overrides = [{ key: 'seats', value: '1' }]
  const { patch } = await transaction(catalog.sql, async (tx) => {
    await lockApplication(tx, tenant.accountId, tenant.applicationId)
    const patch = catalog.calls.updatePlan({ ...tenant, planId, entitlements: { overrides } })
    // It waits again and again, for some milliseconds each time.
    await eventually(async () => expect(await lockWaits(catalog.sql)).toBe(1), { intervalMs: 2 })
    await updateDefinitionRow(tx, users!, { displayName: 'users', default: '5' })
    await incrementVersions(tx, tenant.applicationId, users!)
    return { patch }
  })
  await patch
  expect(resolved(catalog, planId)).toEqual({ seats: '1', users: '5' })
  expect(catalog.licensing.copies.get(planId)!.version).toBe(3n)
})
