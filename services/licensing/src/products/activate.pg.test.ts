import { decodeProtectedHeader } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenLicence, givenPlan, refusal } from '../testing/makers.ts'
import { activate, callOf, givenActivation, lifeOf, startProducts, verified } from './testing/products.ts'
import type { ProductsHarness } from './testing/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())

const entitlements = [
  { key: 'export_pdf', kind: 'feature', value: 'true', default: 'false' },
  { key: 'max_projects', kind: 'limit', value: '10', default: '-1' },
]

test('a first activation is created, and the same fingerprint again finds it', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicence(harness, { planId: plan.id })
  const first = await activate(harness.products, licence, { fingerprint: 'machine-1' })
  expect(first.created).toBe(true)
  expect(first.grant).toMatchObject({ licenceId: licence.id, checkIntervalSeconds: 900 })
  expect(first.grant!.activationId).toMatch(/^act_[0-7][0-9a-z]{25}$/)
  const again = await activate(harness.products, licence, {
    fingerprint: 'machine-1',
    host: 'other.example.com',
  })
  expect(again.created).toBe(false)
  expect(again.grant!.activationId).toBe(first.grant!.activationId)
  const other = await activate(harness.products, licence, { fingerprint: 'machine-2' })
  expect(other.created).toBe(true)
  expect(other.grant!.activationId).not.toBe(first.grant!.activationId)
})

test('the token says exactly what the decisions list', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicence(harness, { planId: plan.id, maxSeats: 5, externalRef: 'customer-7' })
  const grant = await givenActivation(harness.products, licence)
  const claims = await verified(harness, grant.token)
  const now = Math.floor(Date.now() / 1000)
  expect(claims).toEqual({
    iss: 'https://licensing.example',
    sub: licence.id,
    aud: harness.applicationId,
    jti: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    iat: expect.any(Number) as number,
    exp: claims.iat! + 86_400,
    act: grant.activationId,
    plan_id: plan.id,
    status: 'active',
    entitlements: { export_pdf: 'true', max_projects: '10' },
    seats: 5,
    chk: 900,
  })
  expect(Math.abs(now - claims.iat!)).toBeLessThanOrEqual(2)
  expect(decodeProtectedHeader(grant.token)).toEqual({
    alg: 'EdDSA',
    typ: 'JWT',
    kid: expect.any(String) as string,
  })
  expect(lifeOf(grant)).toEqual({
    iat: claims.iat,
    exp: claims.exp,
    expiresAt: claims.exp,
    refreshAfter: claims.iat! + 43_200,
  })
})
