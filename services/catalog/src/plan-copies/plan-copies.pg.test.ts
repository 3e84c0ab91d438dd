import { toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { PlanCopy } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { beforeEach, expect, test } from 'vitest'
import {
  actor,
  catalogOfFile,
  changesOf,
  eventsOf,
  givenDefinitions,
  givenPlan,
  givenTenant,
  insertDefinitions,
  insertPlans,
} from '../../test/catalog.ts'
import type { Tenant, TestCatalog } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('the copies of the plans of all accounts are listed in pages, each once', async () => {
  const made: string[] = []
  for (const tenant of [await givenTenant(catalog), await givenTenant(catalog)]) {
    await givenDefinitions(catalog, tenant, { seats: '2' })
    for (const code of ['a', 'b', 'c']) made.push((await givenPlan(catalog, tenant, code)).id)
  }
  const pages = await pagesOfCopies(catalog, 4)
  const copies = pages.flat().filter(({ id }) => made.includes(id))
  expect(copies.map(({ id }) => id)).toEqual(made)
  for (const copy of copies) expect(copy.entitlements).toMatchObject([{ key: 'seats', value: '2' }])
  expect(pages.length).toBeGreaterThan(1)
})

async function pagesOfCopies({ calls }: TestCatalog, limit: number): Promise<PlanCopy[][]> {
  const pages: PlanCopy[][] = []
  for (let hasMore = true; hasMore;) {
    const page = await calls.listPlanCopies({ afterId: pages.at(-1)?.at(-1)?.id ?? '', limit })
    pages.push(page.plans)
    hasMore = page.hasMore
  }
  return pages
}

/** Creates this number of definitions. @returns the id of one of them, `seats` */
async function givenManyDefinitions(tenant: Tenant, count: number): Promise<string> {
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const keys = Array.from({ length: count - 1 }, (_, at) => `${'k'.repeat(55)}_${at}`)
  await insertDefinitions(catalog, tenant, keys)
  return seats!
}

test('a change of very many plans names all of them in one small event, and sends all copies to licensing', async () => {
  // The copies take about 7 MB.
  const seats = await givenManyDefinitions(tenant, 701)
  const plans = await insertPlans(catalog, tenant, 120)
  await calls.updateEntitlementDefinition({ ...tenant, entitlementDefId: seats, default: '2' })
  const [event, ...others] = await eventsOf(catalog, tenant)
  expect(others).toEqual([])
  expect(toBinary(EventSchema, event!).length).toBeLessThan(10_000)
  const changed = await changesOf(catalog, tenant)
  expect(changed.map(({ planId }) => planId).toSorted()).toEqual(plans)
  for (const { planId, version } of changed) {
    expect(version).toBe(2n)
    const copy = licensing.copies.get(planId)
    expect(copy?.version).toBe(2n)
    expect(copy?.entitlements).toHaveLength(701)
    expect(copy?.entitlements.find(({ key }) => key === 'seats')?.default).toBe('2')
  }
})

test('a page of large copies ends at the size limit of a message', async () => {
  await givenManyDefinitions(tenant, 701)
  const plans = await insertPlans(catalog, tenant, 120)
  const pages = (await pagesOfCopies(catalog, 200)).filter((page) =>
    page.some(({ id }) => plans.includes(id)),
  )
  expect(pages.flat().map(({ id }) => id)).toEqual(expect.arrayContaining(plans))
  expect(pages.length).toBeGreaterThan(1)
})

// All events get this time, because the encoded size of a time differs.
const occurredAt = timestampFromMs(1_800_000_000_999)
const sizesOf = (events: Event[]) =>
  events.map((event) => toBinary(EventSchema, { ...event, occurredAt }).length)

test('the event of a plan has the plan and its version, and the same size with 500 definitions as with one', async () => {
  const [small, large] = [await givenTenant(catalog), await givenTenant(catalog)]
  await givenDefinitions(catalog, small, { seats: '1' })
  await givenManyDefinitions(large, 500)

  /** Creates, updates, archives and restores a plan, and returns the sizes of its events. */
  const live = async (tenant: Tenant) => {
    const before = (await eventsOf(catalog, tenant)).length
    const plan = await givenPlan(catalog, tenant, 'pro', { seats: '2' })
    const of = { ...tenant, planId: plan.id }
    await calls.updatePlan({ ...of, entitlements: { overrides: [{ key: 'seats', value: '3' }] } })
    await calls.archivePlan({ ...of, actor })
    await calls.restorePlan(of)
    const events = (await eventsOf(catalog, tenant)).slice(before)
    expect(events.map(({ payload }) => payload.value)).toMatchObject(
      [1n, 2n, 3n, 4n].map((version) => ({ changed: [{ planId: plan.id, version }] })),
    )
    expect(licensing.copies.get(plan.id)?.version).toBe(4n)
    return sizesOf(events)
  }
  const [sizes, others] = [await live(large), await live(small)]
  // The ids and times in the events differ by a few bytes.
  sizes.forEach((size, at) => expect(Math.abs(size - others[at]!)).toBeLessThan(10))
  expect(Math.max(...sizes)).toBeLessThan(250)
})

test('after catalog was restored, copies have a later epoch, and no version or archive has a number of the lost time', async () => {
  const plan = await givenPlan(catalog, tenant, 'pro')
  const of = { ...tenant, planId: plan.id }
  const copyOf = () => calls.getPlanCopy(of)
  const whenReplaced = () => catalog.sql`update event_log_epochs set incarnation = 'of another server'`
  await whenReplaced()
  const before = await copyOf()
  await calls.archivePlan({ ...of, actor })
  const lost = await copyOf()
  await catalog.sql`
    update plans set status = 'active', version = 1, status_version = 1, archive_version = 0, unconfirmed_until = null
    where id = ${plan.id}`
  await whenReplaced()
  const restored = await copyOf()
  expect(restored).toMatchObject({ version: 1n, status: 'active' })
  expect(restored.epoch).toBeGreaterThan(lost.epoch)
  expect((await calls.getCopyEpoch({ seen: lost.epoch })).epoch).toBe(restored.epoch)
  await calls.archivePlan({ ...of, actor })
  const archived = await copyOf()
  expect(archived.archiveVersion).toBe(archived.version)
  expect(archived.version).toBeGreaterThan(lost.version)
  expect(lost.version).toBeGreaterThan(before.version)
  // The clock of the lost server was ahead.
  const seen = archived.epoch + 86_400_000n
  expect((await calls.getCopyEpoch({ seen })).epoch).toBeGreaterThan(seen)
})

test('changes of one application that are made at the same time reach licensing, in at most as many pushes', async () => {
  const ids = await givenDefinitions(catalog, tenant, { seats: '1', users: '1', api: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '9' })
  const [before, copiesBefore] = [licensing.definitionPushes, licensing.synced.length]
  const changes = Array.from({ length: 12 }, (_, at) => ({
    ...tenant,
    entitlementDefId: Object.values(ids)[at % 3]!,
    default: String(at + 10),
  }))
  await Promise.all(changes.map((change) => calls.updateEntitlementDefinition(change)))
  expect(licensing.definitionPushes - before).toBeLessThanOrEqual(changes.length)
  expect(licensing.synced.length - copiesBefore).toBeLessThanOrEqual(changes.length)
  const copy = await calls.getPlanCopy({ ...tenant, planId: plan.id })
  expect(licensing.copies.get(plan.id)).toEqual(copy)
})
