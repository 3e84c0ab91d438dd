import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import type { ImportLicencesResponse } from '@licensing/proto/licensing'
import { forFile, planCopy, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  actor,
  archive,
  events,
  givenPlan,
  history,
  refusal,
  verbOn,
  detailOf,
  importItems,
  licenceOf,
  listedIds,
} from '../../test/makers.ts'

const harness = await forFile(startHarness)

const results = (response: ImportLicencesResponse) =>
  response.items.map(({ legacyKey, result, error }) => [legacyKey, result, ...(error ? [error.code] : [])])

const countLicences = async () => (await harness.sql`select 1 from licences`).count

test('imported licences are active, with legacy key and snapshot, and send no event', async () => {
  const plan = await givenPlan(harness, {
    entitlements: [{ key: 'export', kind: 'feature', value: 'true', default: 'false' }],
  })
  const before = await events(harness)
  const response = await importItems(harness, [{ legacyKey: 'old-1', externalRef: 'ref-1', planId: plan.id }])
  expect(response).toMatchObject({ created: 1, existing: 0, failed: 0 })
  const id = response.items[0]!.licenceId!
  const detail = await detailOf(harness, { id })
  expect(detail).toMatchObject({
    legacyKey: 'old-1',
    licence: { status: 'active', externalRef: 'ref-1', planId: plan.id },
    entitlements: [{ key: 'export', kind: 'feature', value: 'true' }],
  })
  expect(await history(harness, { id })).toEqual([
    { type: 'imported', from: undefined, to: 'active', actor, cause: undefined },
  ])
  expect(await events(harness)).toEqual(before)
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('a repeated batch finds all its licences existing, and changes nothing', async () => {
  const plan = await givenPlan(harness)
  const items = Array.from({ length: 500 }, (_, at) => ({ legacyKey: `batch-${at}`, planId: plan.id }))
  const first = await importItems(harness, items)
  expect(first).toMatchObject({ created: 500, existing: 0, failed: 0 })
  await harness.licensing.revokeLicence(verbOn(harness, { id: first.items[7]!.licenceId! }))
  const again = await importItems(harness, items.toReversed())
  expect(again).toMatchObject({ created: 0, existing: 500, failed: 0 })
  expect(again.items.map((item) => item.licenceId)).toEqual(
    first.items.map((item) => item.licenceId).toReversed(),
  )
  expect(await activeOn(harness, plan)).toBe(499n)
})

test('an item fails alone, with its own code, and the answer is in the order of the request', async () => {
  const plan = await givenPlan(harness)
  const retired = await givenPlan(harness)
  await archive(harness, retired)
  const elsewhere = await givenPlan({ ...harness, applicationId: 'app_other' })
  const response = await importItems(harness, [
    { legacyKey: 'z-good', planId: plan.id },
    { legacyKey: 'a-unknown', planId: planCopy(harness).id },
    { legacyKey: 'b-retired', planId: retired.id },
    { legacyKey: '', planId: plan.id },
    { legacyKey: 'l'.repeat(256), planId: plan.id },
    { legacyKey: 'c-no-ref', externalRef: '', planId: plan.id },
    { legacyKey: 'd-long-ref', externalRef: 'r'.repeat(256), planId: plan.id },
    { legacyKey: 'e-elsewhere', planId: elsewhere.id },
    { legacyKey: 'f-no-plan', planId: '' },
    { legacyKey: 'nul \u0000', planId: plan.id },
    { legacyKey: 'a-good', planId: plan.id },
  ])
  expect(results(response)).toEqual([
    ['z-good', 'created'],
    ['a-unknown', 'failed', 'not_found'],
    ['b-retired', 'failed', 'plan_archived'],
    ['', 'failed', 'validation_failed'],
    ['l'.repeat(256), 'failed', 'validation_failed'],
    ['c-no-ref', 'failed', 'validation_failed'],
    ['d-long-ref', 'failed', 'validation_failed'],
    ['e-elsewhere', 'failed', 'not_found'],
    ['f-no-plan', 'failed', 'validation_failed'],
    ['nul \u0000', 'failed', 'validation_failed'],
    ['a-good', 'created'],
  ])
  expect(response).toMatchObject({ created: 2, existing: 0, failed: 9 })
  for (const { result, licenceId, error } of response.items) {
    expect(licenceId === undefined).toBe(result === 'failed')
    expect(error !== undefined && error.detail.length > 0).toBe(result === 'failed')
  }
})

test('a legacy key twice in one batch is created once, then existing', async () => {
  const plan = await givenPlan(harness)
  const response = await importItems(harness, [
    { legacyKey: 'twice', planId: 'pln_none' },
    { legacyKey: 'twice', externalRef: 'first', planId: plan.id },
    { legacyKey: 'twice', externalRef: 'second', planId: plan.id },
    { legacyKey: 'twice', planId: 'pln_none' },
  ])
  expect(results(response)).toEqual([
    ['twice', 'failed', 'not_found'],
    ['twice', 'created'],
    ['twice', 'existing'],
    ['twice', 'existing'],
  ])
  const ids = response.items.slice(1).map((item) => item.licenceId)
  expect(new Set(ids).size).toBe(1)
  const { licence } = await detailOf(harness, { id: ids[0]! })
  expect(licence!.externalRef).toBe('first')
})

test('an existing legacy key is found even if the item is invalid', async () => {
  const plan = await givenPlan(harness)
  const [created] = (await importItems(harness, [{ legacyKey: 'known', planId: plan.id }])).items
  await archive(harness, plan)
  const response = await importItems(harness, [
    { legacyKey: 'known', planId: plan.id },
    { legacyKey: 'known', externalRef: '', planId: plan.id },
    { legacyKey: 'known', planId: 'pln_none' },
    { legacyKey: 'known', planId: '' },
  ])
  expect(response).toMatchObject({ created: 0, existing: 4, failed: 0 })
  expect(response.items.map((item) => item.licenceId)).toEqual(Array(4).fill(created!.licenceId))
})

test('a dry run answers the same and writes nothing', async () => {
  const plan = await givenPlan(harness)
  const retired = await givenPlan(harness)
  await archive(harness, retired)
  await importItems(harness, [{ legacyKey: 'dry-known', planId: plan.id }])
  const items = [
    { legacyKey: 'dry-known', externalRef: '', planId: retired.id },
    { legacyKey: 'dry-new', planId: plan.id },
    { legacyKey: 'dry-new', planId: retired.id },
    { legacyKey: 'dry-retired', planId: retired.id },
    { legacyKey: 'dry-unknown', planId: 'pln_none' },
    { legacyKey: '', planId: plan.id },
  ]
  const before = await countLicences()
  const rehearsed = await importItems(harness, items, true)
  expect(await countLicences()).toBe(before)
  expect(await activeOn(harness, plan)).toBe(1n)
  expect(rehearsed.items[1]).toMatchObject({ result: 'created' })
  expect(rehearsed.items[1]).not.toHaveProperty('licenceId')
  expect(rehearsed.items[0]!.licenceId).toMatch(/^lic_/)
  const real = await importItems(harness, items)
  expect(results(rehearsed)).toEqual(results(real))
  expect(rehearsed).toMatchObject({ created: real.created, existing: real.existing, failed: real.failed })
})

test('an item gives its licence an end, restrictions and the end of updates; an invalid one fails alone, also in a dry run', async () => {
  const plan = await givenPlan(harness)
  const [end, updates] = [new Date('2099-01-31T23:59:59.999Z'), new Date('2001-01-01T00:00:00Z')]
  const given = {
    expiresOn: timestampFromDate(end),
    updatesUntil: timestampFromDate(updates),
    restrictions: { domains: ['*.Example.com'], maxActivations: 3, maxSeats: 7, maxConcurrent: 2 },
  }
  const tooMany = Array.from({ length: 101 }, (_, at) => `d${at}.example`)
  const invalid = {
    past: { expiresOn: timestampFromDate(new Date(Date.now() - 1)) },
    problem: { problem: 'expires_on must be a time' },
    address: { restrictions: { domains: ['ok.example', '10.0.0.1'] } },
    many: { restrictions: { domains: tooMany } },
    none: { restrictions: { domains: [], maxActivations: 0 } },
    lease: { restrictions: { domains: [], leaseMinutes: 5 } },
  }
  const items = [
    { legacyKey: 'all-fields', planId: plan.id, ...given },
    ...Object.entries(invalid).map(([name, fields]) => ({
      legacyKey: `wrong-${name}`,
      planId: plan.id,
      ...fields,
    })),
    { legacyKey: 'no-fields', planId: plan.id },
  ]
  const rehearsed = await importItems(harness, items, true)
  const imported = await importItems(harness, items)
  for (const response of [rehearsed, imported]) {
    expect(results(response)).toEqual([
      ['all-fields', 'created'],
      ...Object.keys(invalid).map((name) => [`wrong-${name}`, 'failed', 'validation_failed']),
      ['no-fields', 'created'],
    ])
    expect(response.items.slice(1, -1).map(({ error }) => error!.detail)).toEqual([
      'expires_on must be in the future',
      'expires_on must be a time',
      'restrictions/domains/1 must be a host name, or *. and a host name',
      'restrictions/domains at most 100 domains',
      'restrictions/max_activations must be at least 1',
      'restrictions/lease_minutes needs max_concurrent beside it',
    ])
  }
  const [all, none] = await Promise.all(
    [imported.items[0]!, imported.items.at(-1)!].map(({ licenceId }) =>
      licenceOf(harness, { id: licenceId! }),
    ),
  )
  const restrictions = {
    domains: ['*.example.com'],
    maxActivations: 3,
    maxSeats: 7,
    maxConcurrent: 2,
    leaseMinutes: 15,
  }
  expect(all).toMatchObject({ restrictions })
  expect([timestampDate(all!.expiresOn!), timestampDate(all!.updatesUntil!)]).toEqual([end, updates])
  expect([none!.expiresOn, none!.updatesUntil, none!.restrictions]).toEqual([undefined, undefined, undefined])
  expect(await listedIds(harness, { domain: '*.example.com' })).toEqual([all!.id])
  // The values of an item whose licence exists are ignored, also if they are invalid.
  const again = items.map((item) => ({ ...item, legacyKey: 'all-fields', externalRef: 'other' }))
  expect(await importItems(harness, again)).toMatchObject({ created: 0, existing: again.length, failed: 0 })
  expect((await licenceOf(harness, all!)).restrictions).toMatchObject(restrictions)
})

test('two applications may import the same legacy key', async () => {
  for (const own of [harness, { ...harness, applicationId: 'app_second' }]) {
    const plan = await givenPlan(own)
    const response = await importItems(own, [{ legacyKey: 'both', planId: plan.id }])
    expect(results(response)).toEqual([['both', 'created']])
  }
})

test('a plan without a copy is fetched; if catalog is unavailable, its items can be sent again', async () => {
  const known = await givenPlan(harness)
  const plan = planCopy(harness)
  harness.catalog.copies.set(plan.id, plan)
  const items = [
    { legacyKey: 'fetched', planId: plan.id },
    { legacyKey: 'beside', planId: known.id },
  ]
  harness.catalog.unavailable = true
  try {
    expect(results(await importItems(harness, items))).toEqual([
      ['fetched', 'failed', 'unavailable'],
      ['beside', 'created'],
    ])
  } finally {
    harness.catalog.unavailable = false
  }
  expect(results(await importItems(harness, items))).toEqual([
    ['fetched', 'created'],
    ['beside', 'existing'],
  ])
})

test.each([0, 501])('a batch of %i items is refused as a whole', async (length) => {
  const plan = await givenPlan(harness)
  const items = Array.from({ length }, (_, at) => ({ legacyKey: `over-${at}`, planId: plan.id }))
  const { code, errors } = await refusal(importItems(harness, items))
  expect({ code, pointer: errors[0]!.pointer }).toEqual({ code: 'validation_failed', pointer: '/items' })
  expect(await activeOn(harness, plan)).toBe(0n)
})
