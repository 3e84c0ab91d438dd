import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { decodeProtectedHeader } from 'jose'
import { afterEach, expect, test } from 'vitest'
import { givenLicence, givenPlan, refusal, verbOn, detailOf } from '../../test/makers.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { activate, callOf, givenActivation, lifeOf, verified } from '../../test/products.ts'

const harness = await forFile(startHarness)
afterEach(() => {
  harness.clock.aheadMs = 0
})

const hour = 3_600_000
const entitlements = [
  { key: 'export_pdf', kind: 'feature', value: 'true', default: 'false' },
  { key: 'max_projects', kind: 'limit', value: '10', default: '-1' },
]

async function givenKey(fields: Partial<Parameters<typeof givenLicence>[1]> = {}) {
  const plan = await givenPlan(harness, { entitlements })
  return givenLicence(harness, { planId: plan.id, ...fields })
}

test('a first activation is created, and the same fingerprint again finds it', async () => {
  const licence = await givenKey()
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
  const other = await activate(harness.products, licence, { fingerprint: 'Machine-1' })
  expect(other.created).toBe(true)
  expect(other.grant!.activationId).not.toBe(first.grant!.activationId)
})

test('the token has exactly the claims that the decisions list', async () => {
  const licence = await givenKey({ maxSeats: 5 })
  const grant = await givenActivation(harness.products, licence)
  const claims = await verified(harness, grant.token)
  expect(claims).toEqual({
    iss: 'https://licensing.example',
    sub: licence.id,
    aud: harness.applicationId,
    jti: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    iat: expect.any(Number) as number,
    exp: claims.iat! + 86_400,
    act: grant.activationId,
    plan_id: licence.planId,
    status: 'active',
    entitlements: { export_pdf: 'true', max_projects: '10' },
    seats: 5,
    upd: null,
    chk: 900,
  })
  expect(Math.abs(Date.now() / 1000 - claims.iat!)).toBeLessThan(60)
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

test('a text that is the key of no licence is not found', async () => {
  for (const key of ['00000-00000-00000-00000-00000', '', '7K3QX', 'A'.repeat(5_000)]) {
    expect(await refusal(activate(harness.products, { key }))).toMatchObject({ code: 'not_found' })
  }
})

test.each([
  ['/fingerprint', { fingerprint: '' }],
  ['/fingerprint', { fingerprint: 'x'.repeat(257) }],
  ['/fingerprint', { fingerprint: 'a\u0000b' }],
  ['/host', { host: '' }],
  ['/host', { host: 'h'.repeat(254) }],
  ['/host', { host: 'a\nb' }],
  ['/product_version', { productVersion: '' }],
  ['/product_version', { productVersion: '\u0000' }],
])('a value that does not fit into the tables is refused at %s', async (pointer, installed) => {
  const licence = await givenKey()
  const refused = await refusal(activate(harness.products, licence, installed))
  expect(refused).toMatchObject({ code: 'validation_failed', errors: [{ pointer }] })
})

test('a suspended licence is refused with that reason, also for a known fingerprint', async () => {
  const licence = await givenKey()
  await givenActivation(harness.products, licence, { fingerprint: 'known' })
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  for (const fingerprint of ['known', 'new']) {
    const refused = await refusal(activate(harness.products, licence, { fingerprint }))
    expect(refused).toMatchObject({ code: 'licence_refused', members: { reason: 'suspended' } })
  }
})

test('a token ends with the licence; after that the licence is refused, even before the sweep', async () => {
  const expiresOn = new Date(Date.now() + hour)
  const licence = await givenKey({ expiresOn })
  const grant = await givenActivation(harness.products, licence, { fingerprint: 'one' })
  const { exp, expiresAt, iat, refreshAfter } = lifeOf(grant)
  expect(exp).toBe(Math.floor(expiresOn.getTime() / 1000))
  expect(expiresAt).toBe(exp)
  expect(refreshAfter).toBe(iat + (exp - iat) / 2)

  harness.clock.aheadMs = hour
  for (const fingerprint of ['one', 'two']) {
    const refused = await refusal(activate(harness.products, licence, { fingerprint }))
    expect(refused).toMatchObject({ code: 'licence_refused', members: { reason: 'expired' } })
  }
  expect(await refusal(harness.products.refreshActivation(callOf(grant)))).toMatchObject({
    code: 'licence_refused',
    members: { reason: 'expired' },
  })
  const detail = await detailOf(harness, licence)
  expect(detail.licence!.status).toBe('active')
})

test('a freed slot can be used again, and one fingerprint never occupies two', async () => {
  const licence = await givenKey({ maxActivations: 2 })
  const { products } = harness
  const first = await givenActivation(products, licence, { fingerprint: 'a' })
  await givenActivation(products, licence, { fingerprint: 'b' })
  expect((await activate(products, licence, { fingerprint: 'a' })).created).toBe(false)
  const full = await refusal(activate(products, licence, { fingerprint: 'c' }))
  expect(full.code).toBe('limit_reached')
  expect(full.message).toContain('deactivate one of them first')
  await products.deactivate(callOf(first))
  expect(await activate(products, licence, { fingerprint: 'c' })).toMatchObject({ created: true })
  expect((await refusal(activate(products, licence, { fingerprint: 'a' }))).code).toBe('limit_reached')
})

test('a known machine is activated while the licence is locked, and a new one waits', async () => {
  const licence = await givenKey()
  const { products, sql } = harness
  const first = await givenActivation(products, licence, { fingerprint: 'known' })
  const order: string[] = []
  const started = await sql.begin(async (tx) => {
    await tx`select from licences where id = ${licence.id} for update`
    const created = activate(products, licence, { fingerprint: 'new' }).finally(() => order.push('new'))
    const known = await activate(products, licence, { fingerprint: 'known' }).finally(() =>
      order.push('known'),
    )
    return { created, known }
  })
  expect(started.known).toMatchObject({ created: false, grant: { activationId: first.activationId } })
  expect(await started.created).toMatchObject({ created: true })
  expect(order).toEqual(['known', 'new'])
})

test('an activation that is freed while its machine activates again is replaced by a new one', async () => {
  const licence = await givenKey()
  const { products, sql } = harness
  const first = await givenActivation(products, licence, { fingerprint: 'known' })
  const again = await sql.begin(async (tx) => {
    await tx`delete from activations where id = ${first.activationId}`
    const call = activate(products, licence, { fingerprint: 'known' })
    await eventually(async () => expect(await lockWaits(sql)).toBe(1), { intervalMs: 5 })
    return { call }
  })
  const { created, grant } = await again.call
  expect(created).toBe(true)
  expect(grant!.activationId).not.toBe(first.activationId)
  const detail = await detailOf(harness, licence)
  expect(detail.activations.map(({ id }) => id)).toEqual([grant!.activationId])
})
