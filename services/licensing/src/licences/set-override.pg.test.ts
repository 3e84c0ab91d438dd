import { timestampDate } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  actor,
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  verbOn,
  detailOf,
  changesOf,
} from '../../test/makers.ts'
import { deleteOverride, effectiveOf, letEndsPass, setOverride } from '../../test/overrides.ts'
import { daysAgo, inDays } from '../../test/purchases.ts'

const harness = await forFile(startHarness)

const entitlements = [
  { key: 'export', kind: 'feature', value: 'true', default: 'false' },
  { key: 'seats', kind: 'limit', value: '5', default: '1' },
]
const given = async (on = harness) => givenLicence(on, { planId: (await givenPlan(on, { entitlements })).id })
const detail = (licence: { id: string }) => detailOf(harness, licence)
const changed = 'licence.entitlements_changed'

test('an override is answered, listed and effective; the snapshot and the drift stay', async () => {
  const licence = await given()
  const endsOn = inDays(30)
  const longestNote = '😀'.repeat(500)
  const set = await setOverride(harness, licence, 'seats', { value: '50', endsOn, note: longestNote })
  expect(set).toMatchObject({ key: 'seats', kind: 'limit', value: '50', note: longestNote })
  expect(timestampDate(set.endsOn!)).toEqual(endsOn)
  const found = await detail(licence)
  expect(found.overrides).toEqual([set])
  expect(found.entitlements.map(({ value }) => value)).toEqual(['true', '5'])
  expect(found.planDrift).toEqual([])
  expect(found.effective.map(({ key, kind, value, from }) => [key, kind, value, from])).toEqual([
    ['export', 'feature', 'true', 'snapshot'],
    ['seats', 'limit', '50', 'override'],
  ])
  expect(await events(harness, licence)).toEqual([
    { type: changed, object: { licence_id: licence.id, status: 'active' }, previous: null },
  ])
  expect((await history(harness, licence)).at(-1)).toEqual({
    type: 'changed',
    from: 'active',
    to: 'active',
    actor,
    cause: undefined,
  })
  const to = { value: '50', ends_on: endsOn.toISOString(), note: longestNote }
  expect(await changesOf(harness, licence)).toEqual([
    { actor, changes: { 'overrides.seats': { from: null, to } } },
  ])
})

test('the same override again changes, records and sends nothing; another note is recorded, and no event is sent', async () => {
  const licence = await given()
  const first = await setOverride(harness, licence, 'seats', { value: '50' })
  expect(await setOverride(harness, licence, 'seats', { value: '50' })).toEqual(first)
  expect(await history(harness, licence)).toHaveLength(2)
  const noted = await setOverride(harness, licence, 'seats', { value: '50', note: 'why' })
  expect(noted.createdAt).toEqual(first.createdAt)
  expect(await changesOf(harness, licence)).toHaveLength(2)
  // An override with the value of the snapshot changes nothing for products.
  await setOverride(harness, licence, 'export', { value: 'true' })
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'true override', seats: '50 override' })
  expect(await changesOf(harness, licence)).toHaveLength(3)
  expect(await eventTypes(harness, licence)).toEqual([changed])
})

test('overrides of deleted definitions stay and are counted: a licence has at most 2,000', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicence(harness, { planId: plan.id })
  await setOverride(harness, licence, 'seats', { value: '50' })
  const leftOver = async (count: number) => {
    await harness.sql`
      insert into licence_overrides (licence_id, key, kind, value)
      select ${licence.id}, 'deleted-' || n, 'limit', '1' from generate_series(1, ${count}::int) n on conflict do nothing`
  }
  await leftOver(1_998)
  await setOverride(harness, licence, 'export', { value: 'false' })
  await deleteOverride(harness, licence, 'export')
  await leftOver(1_999)
  const full = await detail(licence)
  expect(full.overrides).toHaveLength(2_000)
  const refused = await refusal(setOverride(harness, licence, 'export', { value: 'false' }))
  expect(refused).toMatchObject({ code: 'quota_exceeded', members: { limit: 2_000 } })
  expect((await detail(licence)).overrides).toEqual(full.overrides)
  // An existing override can still be changed and deleted.
  expect(await setOverride(harness, licence, 'seats', { value: '51' })).toMatchObject({ value: '51' })
  await deleteOverride(harness, licence, 'deleted-1')
  expect(await setOverride(harness, licence, 'export', { value: 'false' })).toMatchObject({ value: 'false' })
})

test('a deleted override gives the snapshot’s value back, once', async () => {
  const licence = await given()
  await setOverride(harness, licence, 'seats', { value: '50' })
  await deleteOverride(harness, licence, 'seats')
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'true snapshot', seats: '5 snapshot' })
  expect((await detail(licence)).overrides).toEqual([])
  expect(await eventTypes(harness, licence)).toEqual([changed, changed])
  const from = { value: '50', ends_on: null, note: null }
  expect((await changesOf(harness, licence)).at(-1)).toEqual({
    actor,
    changes: { 'overrides.seats': { from, to: null } },
  })
  expect(await refusal(deleteOverride(harness, licence, 'seats'))).toMatchObject({ code: 'not_found' })
  expect(await history(harness, licence)).toHaveLength(3)
})

test('a key of the snapshot or of a newer definition can be set; a newer definition alone is not effective', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicence(harness, { planId: plan.id })
  const newer = { key: 'projects', kind: 'limit', value: '3', default: '3' }
  // The definition of `export` was deleted.
  await givenPlan(harness, { id: plan.id, version: 2n, entitlements: [entitlements[1]!, newer] })
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'true snapshot', seats: '5 snapshot' })
  await setOverride(harness, licence, 'projects', { value: '9' })
  await setOverride(harness, licence, 'export', { value: 'false' })
  expect(await effectiveOf(harness, licence)).toEqual({
    export: 'false override',
    projects: '9 override',
    seats: '5 snapshot',
  })
  expect((await detail(licence)).overrides.map(({ key }) => key)).toEqual(['export', 'projects'])
  await deleteOverride(harness, licence, 'projects')
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'false override', seats: '5 snapshot' })
  expect((await refusal(setOverride(harness, licence, 'none', { value: '1' }))).code).toBe('not_found')
})

const invalid: [string, { key?: string; value?: string; endsOn?: Date; note?: string }, string][] = [
  ['a limit that is no integer', { value: '1.5' }, '/value'],
  ['a feature that is no boolean', { key: 'export', value: 'yes' }, '/value'],
  ['an empty value', { value: '' }, '/value'],
  ['an end in the past', { endsOn: daysAgo(1) }, '/ends_on'],
  ['a note of 501 characters', { note: '😀'.repeat(501) }, '/note'],
  ['a note that PostgreSQL cannot store', { note: '\0' }, '/note'],
]

test.each(invalid)('%s is refused', async (_, { key = 'seats', value = '1', ...fields }, pointer) => {
  const licence = await given()
  const { code, errors } = await refusal(setOverride(harness, licence, key, { value, ...fields }))
  expect({ code, pointers: errors.map((error) => error.pointer) }).toEqual({
    code: 'validation_failed',
    pointers: [pointer],
  })
  expect((await detail(licence)).overrides).toEqual([])
  expect(await history(harness, licence)).toHaveLength(1)
})

test('an override of a suspended or expired licence can be changed, one of a revoked or retired licence cannot', async () => {
  const plan = await givenPlan(harness, { entitlements })
  for (const status of ['suspended', 'expired'] as const) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    await setOverride(harness, licence, 'seats', { value: '50' })
    expect((await events(harness, licence)).at(-1)).toMatchObject({ type: changed, object: { status } })
  }
  for (const [status, verb, allowed] of [
    ['revoked', 'revokeLicence', ['retire']],
    ['retired', 'retireLicence', []],
  ] as const) {
    const licence = await given()
    await setOverride(harness, licence, 'seats', { value: '50' })
    await harness.licensing[verb](verbOn(harness, licence))
    const before = await history(harness, licence)
    const conflict = { code: 'conflict', members: { current: status, allowed } }
    const set = (key: string, value: string) => refusal(setOverride(harness, licence, key, { value }))
    expect(await set('seats', '50')).toMatchObject(conflict)
    expect(await refusal(deleteOverride(harness, licence, 'seats'))).toMatchObject(conflict)
    // The refusals come in their usual order.
    expect(await set('seats', 'x')).toMatchObject({ code: 'validation_failed' })
    expect(await set('none', 'x')).toMatchObject({ code: 'not_found' })
    expect(await refusal(deleteOverride(harness, licence, 'export'))).toMatchObject({ code: 'not_found' })
    expect(await history(harness, licence)).toEqual(before)
  }
})

test('the override of another account, or of another application than the key’s, is not found', async () => {
  const licence = await given()
  const request = { ...verbOn(harness, licence), key: 'seats', value: '50' }
  const { licensing } = harness
  const strange = [{ accountId: 'acct_other' }, { onlyApplicationId: 'app_other' }, { licenceId: 'lic_none' }]
  for (const scope of strange) {
    expect((await refusal(licensing.setOverride({ ...request, ...scope }))).code).toBe('not_found')
    expect((await refusal(licensing.deleteOverride({ ...request, ...scope }))).code).toBe('not_found')
  }
  expect((await detail(licence)).overrides).toEqual([])
})

test('an override that has ended stays listed; set again, it counts again, with both ends in the history', async () => {
  const licence = await given()
  const endsOn = inDays(1)
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  await letEndsPass(harness, licence)
  expect(await effectiveOf(harness, licence)).toMatchObject({ seats: '5 snapshot' })
  expect((await detail(licence)).overrides).toMatchObject([{ key: 'seats', value: '50' }])
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  expect(await effectiveOf(harness, licence)).toMatchObject({ seats: '50 override' })
  const actors = (await changesOf(harness, licence)).map((entry) => entry.actor)
  expect(actors).toEqual([actor, 'sweep', actor])
  expect(await eventTypes(harness, licence)).toEqual([changed, changed, changed])
  await letEndsPass(harness, licence)
  await deleteOverride(harness, licence, 'seats')
  expect((await detail(licence)).overrides).toEqual([])
  // The deletion of an override that has ended changes nothing for products.
  expect(await eventTypes(harness, licence)).toHaveLength(4)
})
