import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterEach, expect, test } from 'vitest'
import { newId } from '@licensing/database/ids'
import type { TokenGrant } from '@licensing/proto/products'
import { givenLicence, givenPlan, refusal, detailOf } from '../../test/makers.ts'
import { bought, happen } from '../../test/purchases.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { callOf, givenActivation, lifeOf, verified } from '../../test/products.ts'

const harness = await forFile(startHarness)
afterEach(() => {
  harness.clock.aheadMs = 0
})

const day = 86_400_000
const entitlements = [{ key: 'export_pdf', kind: 'feature', value: 'true', default: 'false' }]

async function givenPaidFor() {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await bought(harness, plan.id)
  return { licence, grant: await givenActivation(harness.products, licence) }
}

async function givenInstalled(fields: Partial<Parameters<typeof givenLicence>[1]> = {}) {
  const plan = await givenPlan(harness, { entitlements })
  const licence = await givenLicence(harness, { planId: plan.id, ...fields })
  return { licence, grant: await givenActivation(harness.products, licence) }
}

const verbOf = (licence: { id: string }) => ({
  accountId: harness.accountId,
  licenceId: licence.id,
  actor: 'key_1',
})

test('the answer of a refresh has the fields of an activation, with a new token', async () => {
  const { licence, grant } = await givenInstalled()
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(Object.keys(refreshed).sort()).toEqual(Object.keys(grant).sort())
  expect(refreshed).toMatchObject({
    activationId: grant.activationId,
    licenceId: licence.id,
    checkIntervalSeconds: 900,
  })
  const claims = await verified(harness, refreshed.token)
  expect(claims).toMatchObject({ sub: licence.id, act: grant.activationId, status: 'active' })
  expect(claims.jti).not.toBe(decodeJwt(grant.token).jti)
  const { exp, expiresAt, iat, refreshAfter } = lifeOf(refreshed)
  expect(expiresAt).toBe(exp)
  expect(refreshAfter).toBe((iat + exp) / 2)
})

test('a token contains the nonce of its own request', async () => {
  const { grant } = await givenInstalled()
  const claimsFor = async (nonce?: string) => {
    const asked = { ...callOf(grant), ...(nonce !== undefined && { nonce }) }
    return verified(harness, (await harness.products.refreshActivation(asked)).token)
  }
  expect(await claimsFor('one')).toHaveProperty('nonce', 'one')
  expect(await claimsFor('ü'.repeat(128))).toHaveProperty('nonce', 'ü'.repeat(128))
  expect(await claimsFor()).not.toHaveProperty('nonce')
  for (const nonce of ['', 'n'.repeat(129), '\0']) {
    expect(await refusal(claimsFor(nonce))).toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/nonce' }],
    })
  }
})

test('a token that expired long ago still refreshes its own activation', async () => {
  const { grant } = await givenInstalled()
  harness.clock.aheadMs = 30 * day
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(lifeOf(refreshed).exp * 1000).toBeGreaterThan(Date.now() + 30 * day)
})

type TokenCall = (call: ReturnType<typeof callOf>) => Promise<unknown>

const tokenCalls: [string, TokenCall][] = [
  ['refresh', (call) => harness.products.refreshActivation(call)],
  ['call-home', (call) => harness.products.recordCallHome(call)],
  ['deactivate', (call) => harness.products.deactivate(call)],
]

async function forgeries(grant: TokenGrant): Promise<[string, string][]> {
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true })
  const claims = decodeJwt(grant.token)
  const [header, payload, signature] = grant.token.split('.') as [string, string, string]
  const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }
  const json = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = (protectedHeader: { kid?: string; jwk?: object }) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', ...protectedHeader }).sign(privateKey)
  const hmac = new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid })
  return [
    ['empty', ''],
    ['no token at all', 'nonsense'],
    ['without a signature', `${header}.${payload}.`],
    ['with a shorter signature', grant.token.slice(0, -1)],
    ['with a character after the signature', `${grant.token}=`],
    ['with another part', `${grant.token}.${signature}`],
    ['with a changed claim', `${header}.${json({ ...claims, exp: 9_999_999_999 })}.${signature}`],
    ['signed with nothing', `${json({ alg: 'none', kid })}.${payload}.`],
    ['signed by another issuer under our key id', await signed({ kid })],
    [
      'signed by another issuer that supplies the key',
      await signed({ kid, jwk: await exportJWK(publicKey) }),
    ],
    ['without a key id', await signed({})],
    ['signed with the public key as a secret', await hmac.sign(new TextEncoder().encode(kid))],
    ['of an application that has no keys', signedFor(grant, newId('app'))],
  ]
}

function signedFor(grant: TokenGrant, applicationId: string): string {
  const [header, , signature] = grant.token.split('.') as [string, string, string]
  const payload = Buffer.from(JSON.stringify({ ...decodeJwt(grant.token), aud: applicationId }))
  return `${header}.${payload.toString('base64url')}.${signature}`
}

test.each(tokenCalls)('%s refuses a forged token and a token of another activation', async (_name, call) => {
  const { licence, grant } = await givenInstalled()
  for (const [what, token] of await forgeries(grant)) {
    const { code } = await refusal(call(callOf({ ...grant, token })))
    expect({ what, code }).toEqual({ what, code: 'unauthenticated' })
  }
  const sibling = await givenActivation(harness.products, licence)
  const { grant: otherTenant } = await givenInstalled()
  const other = { ...harness, applicationId: newId('app') }
  const foreignPlan = await givenPlan(other, { entitlements })
  const foreignLicence = await givenLicence(other, { planId: foreignPlan.id })
  const foreign = await givenActivation(harness.products, foreignLicence)
  for (const { token } of [sibling, otherTenant, foreign]) {
    expect(await refusal(call(callOf({ ...grant, token })))).toMatchObject({ code: 'unauthenticated' })
  }
  await harness.products.refreshActivation(callOf(grant))
})

test.each(tokenCalls)(
  '%s is not found for a freed activation, or for an activation that never existed',
  async (_name, call) => {
    const { grant } = await givenInstalled()
    await harness.products.deactivate(callOf(grant))
    expect(await refusal(call(callOf(grant)))).toMatchObject({ code: 'not_found' })
    for (const activationId of [newId('act'), 'act_nonsense', '', newId('lic')]) {
      expect(await refusal(call(callOf({ ...grant, activationId })))).toMatchObject({ code: 'not_found' })
      expect((await refusal(call(callOf({ ...grant, activationId, token: 'nonsense' })))).code).toBe(
        'unauthenticated',
      )
    }
  },
)

const refusals = [
  ['suspended', (licence: { id: string }) => harness.licensing.suspendLicence(verbOf(licence))],
  ['revoked', (licence: { id: string }) => harness.licensing.revokeLicence(verbOf(licence))],
  ['retired', (licence: { id: string }) => harness.licensing.retireLicence(verbOf(licence))],
  ['expired', (licence: { id: string }) => happen(harness, licence, 'a cancelled subscription')],
] as const

test.each(refusals)(
  'a licence that is %s is refused at once; it may still call home and deactivate',
  async (status, change) => {
    const { licence, grant } = await givenPaidFor()
    await change(licence)
    expect(await refusal(harness.products.refreshActivation(callOf(grant)))).toMatchObject({
      code: 'licence_refused',
      members: { reason: status },
    })
    await harness.products.recordCallHome(callOf(grant, { productVersion: '2.0' }))
    const detail = await detailOf(harness, licence)
    expect(detail.callHome[0]).toMatchObject({ productVersion: '2.0' })
    await harness.products.deactivate(callOf(grant))
  },
)

test('the refresh checks its own host, not that of the activation', async () => {
  const { grant } = await givenInstalled({ domains: ['*.example.com'] })
  await harness.products.refreshActivation(callOf(grant, { host: 'Other.Example.com' }))
  const elsewhere = callOf(grant, { host: 'machine.example.org' })
  expect(await refusal(harness.products.refreshActivation(elsewhere))).toMatchObject({
    code: 'licence_refused',
    members: { reason: 'domain_not_allowed' },
  })
  await harness.products.recordCallHome(elsewhere)
})

test('invalid values are refused, after the token has been checked', async () => {
  const { grant } = await givenInstalled()
  const { products } = harness
  for (const [pointer, installed] of [
    ['/host', { host: '' }],
    ['/product_version', { productVersion: 'a\u0000b' }],
  ] as const) {
    for (const call of [products.refreshActivation, products.recordCallHome]) {
      expect(await refusal(call(callOf(grant, installed)))).toMatchObject({
        code: 'validation_failed',
        errors: [{ pointer }],
      })
      const forged = callOf({ ...grant, token: 'nonsense' }, installed)
      expect(await refusal(call(forged))).toMatchObject({ code: 'unauthenticated' })
    }
  }
})

test('another replica accepts the token, even with another issuer and token life', async () => {
  const { grant } = await givenInstalled()
  const { products: other } = await harness.replica({
    tokens: { ...harness.settings.tokens, issuer: 'elsewhere', lifeSeconds: 60 },
  })
  const refreshed = await other.refreshActivation(callOf(grant))
  const { exp, iat } = lifeOf(refreshed)
  expect(exp - iat).toBe(60)
  expect(decodeJwt(refreshed.token).iss).toBe('elsewhere')
  await harness.products.refreshActivation(callOf(refreshed))
})

test('a token can be checked without a call-home', async () => {
  const [one, other] = [await givenInstalled(), await givenInstalled()]
  const check = (activationId: string, token: string) =>
    harness.products.checkActivation({ activationId, token })
  await check(one.grant.activationId, one.grant.token)
  await expect(check(one.grant.activationId, other.grant.token)).rejects.toMatchObject({
    code: 'unauthenticated',
  })
  await expect(check(newId('act'), one.grant.token)).rejects.toMatchObject({ code: 'not_found' })
})
