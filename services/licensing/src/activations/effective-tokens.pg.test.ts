import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { decodeJwt } from 'jose'
import { expect, test } from 'vitest'
import { givenLicence, givenLicenceIn, givenPlan, detailOf, update } from '../../test/makers.ts'
import { deleteOverride, setOverride } from '../../test/overrides.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  activate,
  callOf,
  givenActivation,
  lifeOf,
  verified,
  activateOffline,
  tokenOf,
} from '../../test/products.ts'

const harness = await forFile(startHarness)

const entitlements = [
  { key: 'export', kind: 'feature', value: 'true', default: 'false' },
  { key: 'seats', kind: 'limit', value: '5', default: '1' },
]
const given = async () => givenLicence(harness, { planId: (await givenPlan(harness, { entitlements })).id })
const claimsOf = ({ token }: { token: string }) => verified(harness, token)
const seconds = (time: Date) => time.getTime() / 1000
const wholeSecondIn = (ms: number) => new Date(Math.floor((Date.now() + ms) / 1000) * 1000)

/** The values that a token contains now, according to the detail. */
async function effectiveValues(licence: { id: string }): Promise<Record<string, string>> {
  const { effective } = await detailOf(harness, licence)
  return Object.fromEntries(effective.map(({ key, value }) => [key, value]))
}

test('a token contains the effective values, and each refresh the values of that time', async () => {
  const licence = await given()
  const activation = await givenActivation(harness.products, licence)
  const refreshed = async () => claimsOf(await harness.products.refreshActivation(callOf(activation)))
  expect((await refreshed())['entitlements']).toEqual({ export: 'true', seats: '5' })
  await setOverride(harness, licence, 'seats', { value: '50' })
  const values = { export: 'true', seats: '50' }
  expect((await refreshed())['entitlements']).toEqual(values)
  expect((await claimsOf((await activate(harness.products, licence)).grant!))['entitlements']).toEqual(values)
  expect(await effectiveValues(licence)).toEqual(values)
  await deleteOverride(harness, licence, 'seats')
  expect((await refreshed())['entitlements']).toEqual(await effectiveValues(licence))
})

test('a downgraded licence’s token contains the defaults, and overrides do not shorten it', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicenceIn(harness, 'downgraded', plan.id)
  await setOverride(harness, licence, 'seats', { value: '50', endsOn: wholeSecondIn(3_600_000) })
  const grant = await givenActivation(harness.products, licence)
  expect((await claimsOf(grant))['entitlements']).toEqual({ export: 'false', seats: '1' })
  expect(await effectiveValues(licence)).toEqual({ export: 'false', seats: '1' })
  const { iat, exp } = lifeOf(grant)
  expect(exp - iat).toBe(86_400)
})

test('a token ends with the first end of its overrides, and no later than the licence', async () => {
  const licence = await given()
  const [first, second] = [wholeSecondIn(3_600_000), wholeSecondIn(7_200_000)]
  await setOverride(harness, licence, 'export', { value: 'false', endsOn: second })
  await setOverride(harness, licence, 'seats', { value: '50', endsOn: new Date(first.getTime() + 900) })
  const grant = await givenActivation(harness.products, licence)
  const life = lifeOf(grant)
  expect([life.exp, life.expiresAt]).toEqual([seconds(first), seconds(first)])
  expect(life.refreshAfter).toBe(life.iat + (life.exp - life.iat) / 2)
  const again = await harness.products.refreshActivation(callOf(grant))
  expect(lifeOf(again).exp).toBe(seconds(first))
  // An override that has ended is not in later tokens, and the next end counts.
  harness.clock.aheadMs = 5_400_000
  const later = await harness.products.refreshActivation(callOf(grant))
  expect(decodeJwt(later.token)['entitlements']).toEqual({ export: 'false', seats: '5' })
  expect(lifeOf(later).exp).toBe(seconds(second))
  harness.clock.aheadMs = 0
  const expiresOn = timestampFromDate(wholeSecondIn(1_800_000))
  await update(harness, licence, { expiresOn })
  const last = await harness.products.refreshActivation(callOf(grant))
  expect(lifeOf(last).exp).toBe(seconds(timestampDate(expiresOn)))
})

test('an override in its last second is not in a token, which would have ended at once', async () => {
  const licence = await given()
  const endsOn = new Date(wholeSecondIn(600_000).getTime() + 700)
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  harness.clock.aheadMs = endsOn.getTime() - 300 - Date.now()
  const { token } = await givenActivation(harness.products, licence)
  harness.clock.aheadMs = 0
  const { entitlements: values, iat, exp } = decodeJwt<{ entitlements: unknown }>(token)
  expect(values).toEqual({ export: 'true', seats: '5' })
  expect(exp! - iat!).toBe(86_400)
})

test('an offline file ends with the first end of its overrides', async () => {
  const licence = await given()
  const endsOn = wholeSecondIn(5 * 86_400_000)
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  const offline = await activateOffline(harness, licence, { days: 30 })
  expect(timestampDate(offline.expiresAt!)).toEqual(endsOn)
  const claims = decodeJwt(tokenOf(offline))
  expect(claims).toMatchObject({ exp: seconds(endsOn), entitlements: { seats: '50' }, upd: null })
})

test('the end that is recorded for the activation is the end of its token', async () => {
  const licence = await given()
  const endsOn = wholeSecondIn(3_600_000)
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  const grant = await givenActivation(harness.products, licence)
  const recorded = async () => {
    const rows = await harness.sql<{ token_ends_at: Date }[]>`
      select token_ends_at from activations where id = ${grant.activationId}`
    return rows[0]!.token_ends_at
  }
  expect(await recorded()).toEqual(endsOn)
  await deleteOverride(harness, licence, 'seats')
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(await recorded()).toEqual(timestampDate(refreshed.expiresAt!))
})

test('a token says until when updates are included', async () => {
  const updatesUntil = new Date('2027-03-01T12:00:00.750Z')
  const limited = await givenLicence(harness, { updatesUntil })
  const grant = await givenActivation(harness.products, limited)
  expect((await claimsOf(grant))['upd']).toBe(Math.floor(seconds(updatesUntil)))
  await update(harness, limited, { updatesUntil: null })
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(await claimsOf(refreshed)).toMatchObject({ upd: null })
})
