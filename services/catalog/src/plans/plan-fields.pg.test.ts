import { toBinary } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { ListPlansResponseSchema } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  eventsOf,
  firstPage,
  givenPlan,
  givenTenant,
  outcomeOf,
  outcomesOf,
  startTestCatalog,
} from '../../test/catalog.ts'
import type { TestCatalog, Tenant } from '../../test/catalog.ts'

let catalog: TestCatalog
let tenant: Tenant
beforeAll(async () => {
  catalog = await startTestCatalog()
})
afterAll(() => catalog[Symbol.asyncDispose]())

const entries = (count: number, from = 0) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${from + at}`, 'v']))

interface MetadataPatch {
  set?: Record<string, string>
  remove?: string[]
  clear?: boolean
}

const changeOf = (patch: MetadataPatch) => ({ set: {}, remove: [], clear: false, ...patch })

/** A plan with metadata, and a function that patches its metadata. */
async function givenMetadata(held: Record<string, string>) {
  tenant = await givenTenant(catalog)
  const plan = await catalog.calls.createPlan({
    ...tenant,
    name: 'Pro',
    code: 'pro',
    metadata: { entries: held },
  })
  const path = { ...tenant, planId: plan.id }
  return {
    plan,
    path,
    patch: (change: MetadataPatch, at = 0) =>
      catalog.replicas[at % 2]!.updatePlan({ ...path, metadata: changeOf(change) }),
  }
}

test('metadata is stored on create, merged on PATCH, and returned in the detail and the list', async () => {
  const { plan, path, patch } = await givenMetadata({ tier: 'gold', 'a.b-c_D': '' })
  expect(plan.metadata).toEqual({ tier: 'gold', 'a.b-c_D': '' })
  expect((await patch({ set: { tier: 'silver', new: '1' } })).metadata).toEqual({
    tier: 'silver',
    'a.b-c_D': '',
    new: '1',
  })
  expect((await patch({ remove: ['tier', 'absent'] })).metadata).toEqual({ 'a.b-c_D': '', new: '1' })
  expect((await catalog.calls.updatePlan({ ...path, name: 'x' })).metadata).toEqual({
    'a.b-c_D': '',
    new: '1',
  })
  expect((await catalog.calls.getPlan(path)).metadata).toEqual({ 'a.b-c_D': '', new: '1' })
  expect((await catalog.calls.listPlans({ ...tenant, ...firstPage })).plans).toMatchObject([
    { metadata: { 'a.b-c_D': '', new: '1' } },
  ])
  expect((await patch({ clear: true, set: { only: '2' } })).metadata).toEqual({ only: '2' })
  expect((await patch({ clear: true })).metadata).toEqual({})
  expect((await givenPlan(catalog, tenant, 'other')).metadata).toEqual({})
})

test('invalid metadata, and more than 50 entries in the result, are refused, and nothing is applied', async () => {
  const { path, patch } = await givenMetadata(entries(50))
  const before = await catalog.calls.getPlan(path)
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
    const named = catalog.calls.updatePlan({ ...path, name: '', metadata })
    expect(await outcomeOf(named)).toBe(`validation_failed /name ${pointer}`)
  }
  expect(await catalog.calls.getPlan(path)).toEqual(before)
  const made = { ...tenant, name: 'x', code: 'x' }
  for (const given of [entries(51), { '': 'v' }]) {
    expect(await outcomeOf(catalog.calls.createPlan({ ...made, metadata: { entries: given } }))).toMatch(
      /^validation_failed \/metadata/,
    )
  }
  expect((await catalog.calls.listPlans({ ...tenant, ...firstPage })).plans).toHaveLength(1)
  expect((await patch({ set: { more: 'v' }, remove: ['n0'] })).metadata).toEqual({
    ...entries(49, 1),
    more: 'v',
  })
})

test('concurrent changes of metadata lose no entry and never exceed 50', async () => {
  const { path, patch } = await givenMetadata(entries(40))
  const outcomes = await outcomesOf(
    Array.from({ length: 20 }, (_, at) => patch({ set: { [`more${at}`]: 'v' } }, at)),
  )
  expect(outcomes.filter((outcome) => outcome === 'ok')).toHaveLength(10)
  expect(outcomes.filter((outcome) => outcome === 'validation_failed /metadata')).toHaveLength(10)
  const { metadata } = await catalog.calls.getPlan(path)
  expect(Object.keys(metadata)).toHaveLength(50)
  outcomes.forEach((outcome, at) => expect(`more${at}` in metadata).toBe(outcome === 'ok'))
})

test('metadata is in no event and raises no version', async () => {
  const before = (await eventsOf(catalog.sql)).length
  const { plan, patch } = await givenMetadata({ note: 'secret-of-the-vendor' })
  await patch({ set: { note: 'another-secret' } })
  const events = (await eventsOf(catalog.sql)).slice(before)
  expect(events).toHaveLength(1)
  expect(catalog.licensing.copies.get(plan.id)?.version).toBe(1n)
  for (const event of events) {
    expect(Buffer.from(toBinary(EventSchema, event)).includes('secret')).toBe(false)
  }
})

test('a page of plans with much metadata is shorter than the limit, and no plan is skipped', async () => {
  tenant = await givenTenant(catalog)
  const large = Object.fromEntries(Object.keys(entries(50)).map((name) => [name, '😀'.repeat(500)]))
  const plans = Array.from({ length: 100 }, () => newId('pln'))
  await catalog.sql`
    insert into plans (id, application_id, name, code, metadata)
    select id, ${tenant.applicationId}, 'x', id, ${JSON.stringify(large)}::text::jsonb
    from unnest(${plans}::text[]) as id`
  const seen: string[] = []
  const sizes: number[] = []
  for (let beforeId = ''; ;) {
    const page = await catalog.calls.listPlans({ ...tenant, limit: 200, beforeId })
    seen.push(...page.plans.map(({ id }) => id))
    sizes.push(toBinary(ListPlansResponseSchema, page).length)
    if (!page.hasMore) break
    beforeId = seen.at(-1)!
  }
  expect(seen).toEqual(plans.toReversed())
  expect(Math.max(...sizes)).toBeLessThan(4_000_000)
})

test('a PATCH that changes nothing leaves updated_at as it is', async () => {
  const { plan, patch } = await givenMetadata({ b: '1', a: '2' })
  const { updatedAt } = plan
  expect(await patch({ set: { a: '2' }, remove: ['c'] })).toMatchObject({ updatedAt })
  expect(await catalog.calls.updatePlan({ ...tenant, planId: plan.id, noTrials: true })).toMatchObject({
    updatedAt,
  })
  expect((await patch({ set: { a: '3' } })).updatedAt).not.toEqual(updatedAt)
})

test('trial_days is 1 to 366 or absent; licensing gets each change of it', async () => {
  tenant = await givenTenant(catalog)
  const make = (code: string, trialDays: number) =>
    catalog.calls.createPlan({ ...tenant, name: 'x', code, trialDays })
  for (const days of [0, 367, -1]) {
    expect(await outcomeOf(make('wrong', days))).toBe('validation_failed /trial_days')
  }
  const copyOf = ({ id }: { id: string }) => catalog.licensing.copies.get(id)
  const without = await givenPlan(catalog, tenant, 'without')
  expect(without.trialDays).toBeUndefined()
  const plan = await make('trial', 366)
  expect(plan.trialDays).toBe(366)
  expect(copyOf(plan)).toMatchObject({ code: 'trial', trialDays: 366, expiringNoticeDays: 14, version: 1n })

  const patch = (change: { trialDays?: number; noTrials?: boolean; code?: string }) =>
    catalog.calls.updatePlan({ ...tenant, planId: plan.id, ...change })
  expect(await outcomeOf(patch({ trialDays: 367, code: 'other' }))).toBe('validation_failed /trial_days')
  expect(await patch({ trialDays: 1 })).toMatchObject({ trialDays: 1, code: 'trial' })
  expect(copyOf(plan)).toMatchObject({ trialDays: 1, version: 2n })
  expect(await patch({ code: 'other' })).toMatchObject({ trialDays: 1 })
  expect(copyOf(plan)).toMatchObject({ trialDays: 1, code: 'other', version: 3n })
  expect((await patch({ noTrials: true })).trialDays).toBeUndefined()
  expect(copyOf(plan)?.trialDays).toBeUndefined()
  expect(copyOf(plan)?.version).toBe(4n)
  expect(await catalog.calls.getPlanCopy({ ...tenant, planId: plan.id })).toEqual(copyOf(plan))
})
