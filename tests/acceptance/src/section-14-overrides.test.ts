import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import {
  claimsOf,
  dayMs,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  inMs,
  isoTime,
} from './vendor.ts'

const studio = await givenStudio()
const { api, app, issue, detail, activate, refresh, history, verb } = studio
const { id: planId } = await studio.plan({ entitlements: [{ key: 'projects', value: '10' }] })

const pathOf = ({ id }: { id: string }, key: string) => `/v1/licences/${id}/overrides/${key}`
const set = (licence: { id: string }, key: string, body: object) => api.put(pathOf(licence, key), { body })
const takePlanValues = ({ id }: { id: string }) => api.post(`/v1/licences/${id}/take-plan-values`)
const changed = ({ id }: { id: string }) => studio.heard('licence.entitlements_changed', id)

test('an override is set, replaced, shown and deleted', async () => {
  const licence = await issue(planId)
  const override = { value: '500', ends_on: inMs(dayMs), note: 'ticket 812' }
  const made = await set(licence, 'projects', override)
  const created_at = expect.stringMatching(isoTime) as string
  expect(made).toMatchObject({
    status: 200,
    body: { key: 'projects', kind: 'limit', ...override, created_at },
  })
  expectStatus(await set(licence, 'export_pdf', { value: 'true' }), 200)
  expect(await detail(licence.id)).toMatchObject({
    entitlements: [
      { key: 'export_pdf', value: 'false' },
      { key: 'projects', value: '10' },
    ],
    overrides: [{ key: 'export_pdf', value: 'true', ends_on: null, note: null }, made.body],
    effective: [
      { key: 'export_pdf', kind: 'feature', value: 'true', from: 'override' },
      { key: 'projects', kind: 'limit', value: '500', from: 'override' },
    ],
  })
  const replaced = await set(licence, 'projects', { value: '7' })
  expect(replaced.body).toMatchObject({ value: '7', ends_on: null, note: null })
  expectStatus(await api.delete(pathOf(licence, 'projects')), 204)
  expectNotFound(await api.delete(pathOf(licence, 'projects')))
  expect((await detail(licence.id)).effective).toMatchObject([
    { key: 'export_pdf', from: 'override' },
    { key: 'projects', value: '10', from: 'snapshot' },
  ])
})

test('an override may use a key that only the application or only the snapshot has', async () => {
  const licence = await issue(planId)
  const late = await studio.define('late_feature', 'feature')
  await eventually(async () => expectStatus(await set(licence, 'late_feature', { value: 'true' }), 200))
  const holder = await issue(planId)
  await api.delete(`${app}/entitlement-defs/${late.id}`)
  expectStatus(await set(holder, 'late_feature', { value: 'true' }), 200)
})

test('an invalid override is refused and changes nothing', async () => {
  const licence = await issue(planId)
  expectNotFound(await set(licence, 'no_such_key', { value: '1' }))
  expectNotFound(await api.delete(pathOf(licence, 'projects')))
  for (const [key, body, pointer] of [
    ['projects', { value: 'true' }, '/value'],
    ['projects', { value: 5 }, '/value'],
    ['export_pdf', { value: '1' }, '/value'],
    ['projects', {}, '/value'],
    ['projects', { value: '5', ends_on: inMs(-1_000) }, '/ends_on'],
    ['projects', { value: '5', note: 'x'.repeat(501) }, '/note'],
    ['projects', { value: '5', key: 'projects' }, '/key'],
  ] as const) {
    expectInvalid(await set(licence, key, body), pointer)
  }
  expect((await detail(licence.id)).overrides).toEqual([])
  for (const end of ['revoke', 'retire']) {
    const ended = await issue(planId)
    await set(ended, 'projects', { value: '5' })
    await verb(end, ended.id)
    expectProblem(await set(ended, 'projects', { value: '6' }), 409, 'conflict')
    expectProblem(await api.delete(pathOf(ended, 'projects')), 409, 'conflict')
    expectProblem(await takePlanValues(ended), 409, 'conflict')
  }
})

test('a token has the effective values, and like an offline file ends with the first override in it', async () => {
  const licence = await issue(planId)
  const ends = Date.now() + 3_600_000
  await set(licence, 'projects', { value: '500', ends_on: new Date(ends).toISOString() })
  await set(licence, 'export_pdf', { value: 'true', ends_on: inMs(7_200_000) })
  const { body: grant } = await activate(licence)
  const claims = claimsOf(grant.token)
  expect(claims['entitlements']).toEqual({ export_pdf: 'true', projects: '500' })
  const file = await studio.activateOffline(licence, 90)
  for (const end of [claims.exp * 1000, Date.parse(file.body.expires_at)]) {
    expect(end).toBeLessThanOrEqual(ends)
    expect(end).toBeGreaterThan(ends - 100_000)
  }
  await set(licence, 'projects', { value: '6' })
  await set(licence, 'export_pdf', { value: 'true' })
  const later = claimsOf((await refresh(grant)).body.token)
  expect(later['entitlements']).toEqual({ export_pdf: 'true', projects: '6' })
  expect(later.exp).toBeGreaterThan(claims.exp)
})

test('an override ends by itself: in tokens at once, and with an event and an entry in the history within 30 s', async () => {
  const licence = await issue(planId)
  const endsOn = Date.now() + 3_000
  await set(licence, 'projects', { value: '500', ends_on: new Date(endsOn).toISOString() })
  await eventually(() => expect(changed(licence)).toHaveLength(1))
  expect(changed(licence)[0]!.data.object).toEqual({ licence_id: licence.id, status: 'active' })
  await eventually(() => expect(Date.now()).toBeGreaterThan(endsOn))
  expect(claimsOf((await activate(licence)).body.token)['entitlements']).toMatchObject({ projects: '10' })
  expect(await detail(licence.id)).toMatchObject({
    overrides: [{ key: 'projects', value: '500' }],
    effective: [{ key: 'export_pdf' }, { key: 'projects', value: '10', from: 'snapshot' }],
  })
  await eventually(() => expect(changed(licence)).toHaveLength(2), { timeoutMs: 35_000 })
  const [end] = await history(licence.id)
  expect([end!.type, ...Object.keys(end!.changes!)]).toEqual(['changed', 'overrides.projects'])
})

test('a call that changes nothing sends and records nothing', async () => {
  const licence = await issue(planId)
  // The value equals the snapshot's. The new override is recorded, but no effective value changes.
  await set(licence, 'projects', { value: '10' })
  expect(await history(licence.id)).toHaveLength(2)
  await set(licence, 'projects', { value: '10' })
  await takePlanValues(licence)
  expect(await history(licence.id)).toHaveLength(2)
  await studio.settled()
  expect(changed(licence)).toHaveLength(0)
  await set(licence, 'projects', { value: '11' })
  await eventually(() => expect(changed(licence)).toHaveLength(1))
  expect((await history(licence.id))[0]!.changes).toHaveProperty(['overrides.projects'])
})

test('a downgraded licence has the defaults and ignores overrides', async () => {
  const plan = await studio.plan({ entitlements: [{ key: 'projects', value: '10' }] })
  const { session, licence } = await studio.buy((await studio.sells({}, plan)).id)
  await set(licence, 'projects', { value: '500', ends_on: inMs(3_600_000) })
  const { body: grant } = await activate(licence)
  await studio.market.atProcessor('refund', { charge: session.remote, amount: 100 })
  const { overrides, effective } = await studio.becomes(licence.id, 'downgraded')
  expect(overrides).toMatchObject([{ key: 'projects', value: '500' }])
  expect(effective).toContainEqual({ key: 'projects', kind: 'limit', value: '3', from: 'default' })
  const claims = claimsOf((await refresh(grant)).body.token)
  expect(claims['entitlements']).toMatchObject({ projects: '3' })
  expect(claims.exp * 1000).toBeGreaterThan(Date.now() + 3_600_000)
})

test('a licence takes the values of its plan, and overrides stay', async () => {
  const made = await studio.plan({ entitlements: [{ key: 'projects', value: '10' }] })
  const licence = await issue(made.id)
  await set(licence, 'export_pdf', { value: 'true' })
  await eventually(() => expect(changed(licence)).toHaveLength(1))
  await api.patch(`${app}/plans/${made.id}`, { body: { entitlements: [{ key: 'projects', value: '20' }] } })
  const drifted = await eventually(async () => {
    const found = await detail(licence.id)
    expect(found.plan_drift).not.toEqual([])
    return found
  })
  const projects = { key: 'projects', kind: 'limit', from: 'snapshot' }
  expect(drifted.effective).toContainEqual({ ...projects, value: '10' })
  const { id, key } = licence
  expect(await takePlanValues(licence)).toMatchObject({ status: 200, body: { id, key, status: 'active' } })
  const after = await detail(licence.id)
  expect(after.plan_drift).toEqual([])
  expect(after.effective).toContainEqual({ ...projects, value: '20' })
  expect(after.overrides).toHaveLength(1)
  expect((await history(licence.id))[0]!.changes).toHaveProperty('entitlements')
  await eventually(() => expect(changed(licence)).toHaveLength(2))
})
