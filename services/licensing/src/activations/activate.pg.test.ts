import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { decodeProtectedHeader } from 'jose'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { givenLicence, givenLicenceIn, givenPlan, refusal } from '../../test/makers.ts'
import { bought, happen } from '../../test/purchases.ts'
import { activate, callOf, givenActivation, lifeOf, startProducts, verified } from '../../test/products.ts'
import type { ProductsHarness } from '../../test/products.ts'

let harness: ProductsHarness
beforeAll(async () => {
  harness = await startProducts()
})
afterAll(() => harness[Symbol.asyncDispose]())
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

test('two tokens never have the same id, and without max_seats a token has no seats', async () => {
  const licence = await givenKey()
  const claims = await Promise.all(
    [1, 2].map(async () => verified(harness, (await givenActivation(harness.products, licence)).token)),
  )
  expect(claims[0]!.jti).not.toBe(claims[1]!.jti)
  expect(claims[0]!['seats']).toBe(null)
})

test('no answer of an activation contains data of the vendor', async () => {
  const licence = await givenKey({ externalRef: 'customer-of-the-vendor', domains: ['*.example.com'] })
  const { grant } = await activate(harness.products, licence)
  expect(Object.keys(grant!).sort()).toEqual([
    '$typeName',
    'activationId',
    'checkIntervalSeconds',
    'expiresAt',
    'licenceId',
    'refreshAfter',
    'token',
  ])
  const said = JSON.stringify(await verified(harness, grant!.token))
  for (const secret of ['customer-of-the-vendor', harness.accountId, licence.key, '*.example.com']) {
    expect(said).not.toContain(secret)
  }
})

test('a key is read without regard to case, hyphens and spaces, and O, I, L as the digits they look like', async () => {
  const licence = await givenKey()
  const { products } = harness
  const written = [
    licence.key.toLowerCase(),
    licence.key.replaceAll('-', ''),
    ` ${licence.key.toLowerCase().replaceAll('-', ' ')} `,
    licence.key.replaceAll('0', 'o').replaceAll('1', 'l'),
  ]
  for (const key of written) {
    expect((await givenActivation(products, { key })).licenceId).toBe(licence.id)
  }
})

test.each([
  ['unknown', '00000-00000-00000-00000-00000'],
  ['empty', ''],
  ['too short', '7K3QX'],
  ['with a letter that no key has', 'UUUUU-UUUUU-UUUUU-UUUUU-UUUUU'],
  ['very long', 'A'.repeat(5_000)],
])('a key that is %s is not found', async (_what, key) => {
  expect(await refusal(activate(harness.products, { key }))).toMatchObject({ code: 'not_found' })
})

test.each([
  ['/fingerprint', { fingerprint: '' }],
  ['/fingerprint', { fingerprint: 'x'.repeat(257) }],
  ['/fingerprint', { fingerprint: 'a\u0000b' }],
  ['/host', { host: '' }],
  ['/host', { host: 'h'.repeat(254) }],
  ['/product_version', { productVersion: '' }],
  ['/product_version', { productVersion: '\u0000' }],
])('a value that does not fit into the tables is refused at %s', async (pointer, installed) => {
  const licence = await givenKey()
  const refused = await refusal(activate(harness.products, licence, installed))
  expect(refused).toMatchObject({ code: 'validation_failed', errors: [{ pointer }] })
})

test.each(['suspended', 'revoked', 'expired', 'retired'] as const)(
  'a licence that is %s is refused with that reason, also for a known fingerprint',
  async (status) => {
    const licence = await bought(harness, (await givenPlan(harness)).id)
    await givenActivation(harness.products, licence, { fingerprint: 'known' })
    const verb = { accountId: harness.accountId, licenceId: licence.id, actor: 'key_1' }
    const reach: Record<typeof status, () => Promise<unknown>> = {
      suspended: () => harness.licensing.suspendLicence(verb),
      revoked: () => harness.licensing.revokeLicence(verb),
      retired: () => harness.licensing.retireLicence(verb),
      expired: () => happen(harness, licence, 'a cancelled subscription'),
    }
    await reach[status]()
    for (const fingerprint of ['known', 'new']) {
      const refused = await refusal(activate(harness.products, licence, { fingerprint }))
      expect(refused).toMatchObject({ code: 'licence_refused', members: { reason: status } })
    }
  },
)

test.each(['active', 'downgraded'] as const)('a licence that is %s is activated', async (status) => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicenceIn(harness, status satisfies LicenceStatus, plan.id)
  const claims = await verified(harness, (await givenActivation(harness.products, licence)).token)
  expect(claims['status']).toBe(status)
})

test('a downgraded licence gets the defaults, and its snapshot stays', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicenceIn(harness, 'downgraded', plan.id)
  const claims = await verified(harness, (await givenActivation(harness.products, licence)).token)
  expect(claims['entitlements']).toEqual({ export_pdf: 'false', max_projects: '-1' })
  const detail = await harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })
  expect(detail.entitlements.map(({ key, value }) => [key, value])).toEqual([
    ['export_pdf', 'true'],
    ['max_projects', '10'],
  ])
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
  const detail = await harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })
  expect(detail.licence!.status).toBe('active')
})

test('only allowed hosts can activate, in any letter case', async () => {
  const licence = await givenKey({ domains: ['App.Example.com', '*.Dev.example.com'] })
  const { products } = harness
  for (const host of ['APP.example.com', 'a.dev.example.com', 'x.Y.DEV.Example.com']) {
    expect(await activate(products, licence, { host })).toMatchObject({ created: true })
  }
  for (const host of ['dev.example.com', 'example.com', 'app.example.com.evil.org', 'xapp.example.com']) {
    expect(await refusal(activate(products, licence, { host }))).toMatchObject({
      code: 'licence_refused',
      members: { reason: 'domain_not_allowed' },
    })
  }
})

test('a freed place can be used again, and one fingerprint never occupies two', async () => {
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
  expect(await refusal(activate(products, licence, { fingerprint: 'a' }))).toMatchObject({
    code: 'limit_reached',
  })
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
  const detail = await harness.licensing.getLicence({ accountId: harness.accountId, licenceId: licence.id })
  expect(detail.activations.map(({ id }) => id)).toEqual([grant!.activationId])
})
