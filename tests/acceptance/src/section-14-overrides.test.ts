import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimsOf, dayMs, expectStatus, givenStudio, inMs } from './section-14.ts'
import type { FullLicence, Override, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { expectInvalid, expectProblem, isoTime } from './vendor.ts'

let market: Market
let studio: Studio
let planId: string
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  planId = (await studio.plan({ entitlements: [{ key: 'projects', value: '10' }] })).id
})
afterAll(() => market[Symbol.asyncDispose]())

const pathOf = (licence: { id: string }, key: string) => `/v1/licences/${licence.id}/overrides/${key}`
const set = (licence: { id: string }, key: string, body: object) =>
  studio.api.put<Override>(pathOf(licence, key), { body })
const changed = (licence: { id: string }) => studio.heard('licence.entitlements_changed', licence.id)

test('an override is set, replaced, shown and deleted', async () => {
  const { api, detail, issue } = studio
  const licence = await issue(planId)
  const ends_on = new Date(Date.now() + dayMs).toISOString()
  const made = await set(licence, 'projects', { value: '500', ends_on, note: 'ticket 812' })
  expectStatus(made, 200)
  expect(made.body).toEqual({
    key: 'projects',
    kind: 'limit',
    value: '500',
    ends_on,
    note: 'ticket 812',
    created_at: expect.stringMatching(isoTime),
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
  const deleted = await api.delete(pathOf(licence, 'projects'))
  expectStatus(deleted, 204)
  expectProblem(await api.delete(pathOf(licence, 'projects')), 404, 'not_found')
  expect((await detail(licence.id)).effective).toMatchObject([
    { key: 'export_pdf', from: 'override' },
    { key: 'projects', value: '10', from: 'snapshot' },
  ])
})

test('an override may use a key that only the application or only the snapshot has', async () => {
  const { api, app, define, issue } = studio
  const licence = await issue(planId)
  const late = await define('late_feature', 'feature')
  await eventually(async () => expectStatus(await set(licence, 'late_feature', { value: 'true' }), 200))
  const holder = await issue(planId)
  await api.delete(`${app}/entitlement-defs/${late.id}`)
  expectStatus(await set(holder, 'late_feature', { value: 'true' }), 200)
})

test('an invalid override is refused and changes nothing', async () => {
  const { api, issue, detail, verb } = studio
  const licence = await issue(planId)
  expectProblem(await set(licence, 'no_such_key', { value: '1' }), 404, 'not_found')
  expectProblem(await set(licence, 'no_such_key', { value: 1 }), 404, 'not_found')
  expectProblem(await api.delete(pathOf(licence, 'projects')), 404, 'not_found')
  for (const [key, body, pointer] of [
    ['projects', { value: 'true' }, '/value'],
    ['projects', { value: '01' }, '/value'],
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
    expectProblem(await api.post(`/v1/licences/${ended.id}/take-plan-values`), 409, 'conflict')
  }
})

test('a token has the effective values, and ends with the first override in it', async () => {
  const { issue, activate, refresh } = studio
  const licence = await issue(planId)
  await set(licence, 'projects', { value: '500', ends_on: inMs(3_600_000) })
  await set(licence, 'export_pdf', { value: 'true', ends_on: inMs(7_200_000) })
  const activated = await activate(licence)
  const claims = claimsOf(activated.body.token)
  expect(claims['entitlements']).toEqual({ export_pdf: 'true', projects: '500' })
  expect(claims.exp * 1000).toBeLessThanOrEqual(Date.now() + 3_600_000)
  expect(claims.exp * 1000).toBeGreaterThan(Date.now() + 3_500_000)
  await set(licence, 'projects', { value: '6' })
  await set(licence, 'export_pdf', { value: 'true' })
  const later = claimsOf((await refresh(activated)).body.token)
  expect(later['entitlements']).toEqual({ export_pdf: 'true', projects: '6' })
  expect(later.exp).toBeGreaterThan(claims.exp)
})

test('an offline file ends with the first override in it', async () => {
  const { api, app, issue } = studio
  const licence = await issue(planId)
  const ends_on = inMs(2 * dayMs)
  await set(licence, 'projects', { value: '500', ends_on })
  const file = await api.post<{ expires_at: string }>(`${app}/offline-activations`, {
    body: { licence_key: licence.key, fingerprint: 'f', host: 'h', product_version: '1', days: 90 },
  })
  expectStatus(file, 201)
  expect(Date.parse(file.body.expires_at)).toBeLessThanOrEqual(Date.parse(ends_on))
})

test('an override ends by itself: in tokens at once, and with an event and an entry in the history within 30 s', async () => {
  const { issue, detail, activate, history } = studio
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
  expect(end).toMatchObject({ type: 'changed' })
  expect(Object.keys(end!.changes!)).toEqual(['overrides.projects'])
})

test('a call that changes nothing sends and records nothing', async () => {
  const { api, issue, history, settled } = studio
  const licence = await issue(planId)
  // The value equals the snapshot's. The new override is recorded, but no effective value changes.
  await set(licence, 'projects', { value: '10' })
  expect(await history(licence.id)).toHaveLength(2)
  await set(licence, 'projects', { value: '10' })
  await api.post(`/v1/licences/${licence.id}/take-plan-values`)
  expect(await history(licence.id)).toHaveLength(2)
  await settled()
  expect(changed(licence)).toHaveLength(0)
  await set(licence, 'projects', { value: '11' })
  await eventually(() => expect(changed(licence)).toHaveLength(1))
  expect((await history(licence.id))[0]!.changes).toHaveProperty(['overrides.projects'])
})

test('a downgraded licence has the defaults and ignores overrides', async () => {
  const { sells, buy, detail, becomes, refresh, activate } = studio
  const plan = await sells({}, await studio.plan({ entitlements: [{ key: 'projects', value: '10' }] }))
  const { session, licence } = await buy(plan.id)
  await set(licence, 'projects', { value: '500', ends_on: inMs(3_600_000) })
  const activated = await activate(licence)
  await market.atProcessor('refund', { charge: session.remote, amount: 100 })
  await becomes(licence.id, 'downgraded')
  expect(await detail(licence.id)).toMatchObject({
    overrides: [{ key: 'projects', value: '500' }],
    effective: expect.arrayContaining([
      { key: 'projects', kind: 'limit', value: '3', from: 'default' },
    ]) as object,
  })
  const claims = claimsOf((await refresh(activated)).body.token)
  expect(claims['entitlements']).toMatchObject({ projects: '3' })
  expect(claims.exp * 1000).toBeGreaterThan(Date.now() + 3_600_000)
})

test('a licence takes the values of its plan, and overrides stay', async () => {
  const { api, app, plan, issue, detail, history } = studio
  const made = await plan({ entitlements: [{ key: 'projects', value: '10' }] })
  const licence = await issue(made.id)
  await set(licence, 'export_pdf', { value: 'true' })
  await eventually(() => expect(changed(licence)).toHaveLength(1))
  await api.patch(`${app}/plans/${made.id}`, { body: { entitlements: [{ key: 'projects', value: '20' }] } })
  const drifted = await eventually(async () => {
    const found = await detail(licence.id)
    expect(found.plan_drift).not.toEqual([])
    return found
  })
  expect(drifted.effective).toContainEqual({ key: 'projects', kind: 'limit', value: '10', from: 'snapshot' })
  const took = await api.post<FullLicence>(`/v1/licences/${licence.id}/take-plan-values`)
  expectStatus(took, 200)
  expect(took.body).toMatchObject({ id: licence.id, key: licence.key, status: 'active' })
  const after = await detail(licence.id)
  expect(after.plan_drift).toEqual([])
  expect(after.effective).toContainEqual({ key: 'projects', kind: 'limit', value: '20', from: 'snapshot' })
  expect(after.overrides).toHaveLength(1)
  expect((await history(licence.id))[0]!.changes).toHaveProperty('entitlements')
  await eventually(() => expect(changed(licence)).toHaveLength(2))
})
