import { toBinary } from '@bufbuild/protobuf'
import { EventSchema } from '@licensing/proto/events'
import { beforeEach, expect, test } from 'vitest'
import {
  catalogOfFile,
  eventsOf,
  firstPage,
  givenPlan,
  givenTenant,
  outcomeOf,
  outcomesOf,
  planChange,
} from '../../test/catalog.ts'
import type { Tenant, TestCatalog } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

const entries = (count: number, from = 0) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${from + at}`, 'v']))

interface MetadataPatch {
  set?: Record<string, string>
  remove?: string[]
  clear?: boolean
}

const changeOf = (patch: MetadataPatch) => ({ set: {}, remove: [], clear: false, ...patch })

/** A plan with metadata, and a function that patches its metadata. */
async function givenMetadata(catalog: TestCatalog, tenant: Tenant, held: Record<string, string>) {
  const made = { ...tenant, fields: { name: 'Pro', code: 'pro', metadata: { set: held } } }
  const plan = await calls.createPlan(made)
  const path = { ...tenant, planId: plan.id }
  return {
    plan,
    path,
    patch: (change: MetadataPatch, at = 0) =>
      catalog.replicas[at % 2]!.updatePlan({ ...path, ...planChange({ metadata: changeOf(change) }) }),
  }
}

test('metadata is stored on create, merged on PATCH, and returned in the detail and the list', async () => {
  const { plan, path, patch } = await givenMetadata(catalog, tenant, { tier: 'gold', 'a.b-c_D': '' })
  expect(plan.metadata).toEqual({ tier: 'gold', 'a.b-c_D': '' })
  const merged = await patch({ set: { tier: 'silver', new: '1' } })
  expect(merged.metadata).toEqual({ tier: 'silver', 'a.b-c_D': '', new: '1' })
  const left = { 'a.b-c_D': '', new: '1' }
  expect((await patch({ remove: ['tier', 'absent'] })).metadata).toEqual(left)
  expect((await calls.updatePlan({ ...path, ...planChange({ name: 'x' }) })).metadata).toEqual(left)
  expect((await calls.getPlan(path)).metadata).toEqual(left)
  const { plans } = await calls.listPlans({ ...tenant, ...firstPage })
  expect(plans.map(({ metadata }) => metadata)).toEqual([left])
  expect((await patch({ clear: true, set: { only: '2' } })).metadata).toEqual({ only: '2' })
  expect((await patch({ clear: true })).metadata).toEqual({})
  expect((await givenPlan(catalog, tenant, 'other')).metadata).toEqual({})
})

test('invalid metadata, and more than 50 entries in the result, are refused, and nothing is applied', async () => {
  const { path, patch } = await givenMetadata(catalog, tenant, entries(50))
  const before = await calls.getPlan(path)
  const refusals: [MetadataPatch, string][] = [
    [{ set: { 'a b': '' } }, '/metadata/a b'],
    [{ set: { 'a/~': '' } }, '/metadata/a~1~0'],
    [{ set: { a: 'v'.repeat(501) }, remove: ['n0'] }, '/metadata/a'],
    [{ set: { a: 'nul\0' }, remove: ['n0'] }, '/metadata/a'],
    [{ set: { more: 'v' } }, '/metadata'],
    [{ set: entries(51), clear: true }, '/metadata'],
  ]
  for (const [change, pointer] of refusals) {
    expect(await outcomeOf(patch(change))).toBe(`validation_failed ${pointer}`)
    const metadata = changeOf(change)
    const named = calls.updatePlan({ ...path, ...planChange({ name: '', metadata }) })
    expect(await outcomeOf(named)).toBe(`validation_failed /name ${pointer}`)
  }
  expect(await calls.getPlan(path)).toEqual(before)
  const named = { name: 'x', code: 'x' }
  for (const given of [entries(51), { '': 'v' }]) {
    expect(
      await outcomeOf(calls.createPlan({ ...tenant, fields: { ...named, metadata: { set: given } } })),
    ).toMatch(/^validation_failed \/metadata/)
  }
  expect((await calls.listPlans({ ...tenant, ...firstPage })).plans).toHaveLength(1)
  expect((await patch({ set: { more: 'v' }, remove: ['n0'] })).metadata).toEqual({
    ...entries(49, 1),
    more: 'v',
  })
})

test('concurrent changes of metadata lose no entry and never exceed 50', async () => {
  const { path, patch } = await givenMetadata(catalog, tenant, entries(40))
  const outcomes = await outcomesOf(
    Array.from({ length: 20 }, (_, at) => patch({ set: { [`more${at}`]: 'v' } }, at)),
  )
  expect(outcomes.filter((outcome) => outcome === 'ok')).toHaveLength(10)
  expect(outcomes.filter((outcome) => outcome === 'validation_failed /metadata')).toHaveLength(10)
  const { metadata } = await calls.getPlan(path)
  expect(Object.keys(metadata)).toHaveLength(50)
  outcomes.forEach((outcome, at) => expect(`more${at}` in metadata).toBe(outcome === 'ok'))
})

test('metadata is in no event and raises no version', async () => {
  const { plan, patch } = await givenMetadata(catalog, tenant, { note: 'secret-of-the-vendor' })
  await patch({ set: { note: 'another-secret' } })
  const events = await eventsOf(catalog, tenant)
  expect(events).toHaveLength(1)
  expect(licensing.copies.get(plan.id)?.version).toBe(1n)
  for (const event of events) {
    expect(Buffer.from(toBinary(EventSchema, event)).includes('secret')).toBe(false)
  }
})

test('a PATCH that changes nothing leaves updated_at as it is', async () => {
  const { plan, patch } = await givenMetadata(catalog, tenant, { b: '1', a: '2' })
  const { updatedAt } = plan
  expect(await patch({ set: { a: '2' }, remove: ['c'] })).toMatchObject({ updatedAt })
  expect(
    await calls.updatePlan({ ...tenant, planId: plan.id, ...planChange({ trialDays: undefined }) }),
  ).toMatchObject({
    updatedAt,
  })
  expect((await patch({ set: { a: '3' } })).updatedAt).not.toEqual(updatedAt)
})

test('trial_days is 1 to 366 or absent; licensing gets each change of it', async () => {
  const make = (code: string, trialDays: number) =>
    calls.createPlan({ ...tenant, fields: { name: 'x', code, trialDays } })
  for (const days of [0, 367, -1]) {
    expect(await outcomeOf(make('wrong', days))).toBe('validation_failed /trial_days')
  }
  const copyOf = ({ id }: { id: string }) => licensing.copies.get(id)
  const without = await givenPlan(catalog, tenant, 'without')
  expect(without.trialDays).toBeUndefined()
  const plan = await make('trial', 366)
  expect(plan.trialDays).toBe(366)
  expect(copyOf(plan)).toMatchObject({ code: 'trial', trialDays: 366, expiringNoticeDays: 14, version: 1n })

  const patch = (change: { trialDays?: number | undefined; code?: string }) =>
    calls.updatePlan({ ...tenant, planId: plan.id, ...planChange(change) })
  expect(await outcomeOf(patch({ trialDays: 367, code: 'other' }))).toBe('validation_failed /trial_days')
  expect(await patch({ trialDays: 1 })).toMatchObject({ trialDays: 1, code: 'trial' })
  expect(copyOf(plan)).toMatchObject({ trialDays: 1, version: 2n })
  expect(await patch({ code: 'other' })).toMatchObject({ trialDays: 1 })
  expect(copyOf(plan)).toMatchObject({ trialDays: 1, code: 'other', version: 3n })
  expect((await patch({ trialDays: undefined })).trialDays).toBeUndefined()
  expect(copyOf(plan)?.trialDays).toBeUndefined()
  expect(copyOf(plan)?.version).toBe(4n)
  expect(await calls.getPlanCopy({ ...tenant, planId: plan.id })).toEqual(copyOf(plan))
})
