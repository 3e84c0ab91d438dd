import { memoryStore } from '@licensing/sdk'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import type { JWK, JWTPayload } from 'jose'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { keySet, rotateSigningKey } from './published.ts'
import {
  dayMs,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectRefused,
  expectStatus,
  givenStack,
  givenVendor,
  inMs,
  installed,
  isoTime,
} from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
const { api, detail } = vendor
await vendor.define('export_pdf', 'feature', 'true')
const plan = await vendor.plan()

const givenLicence = (fields: Record<string, unknown> = {}) => vendor.issue(plan.id, fields)

interface OfflineActivation {
  activation_id: string
  licence_id: string
  expires_at: string
  file: string
}

const activateOffline = (
  licence: { key: string },
  fields: Record<string, unknown> = {},
  { app = vendor.app, key = stack.apiKey }: { app?: string; key?: string } = {},
) =>
  api.post<OfflineActivation>(`${app}/offline-activations`, {
    key,
    body: { licence_key: licence.key, fingerprint: randomUUID(), days: 90, ...installed, ...fields },
  })

/** Verifies and reads the file with only the root key, as a machine without a network does. */
async function opened(file: string): Promise<{ token: string; claims: JWTPayload; set: { exp: number } }> {
  const [begin, token, ...rest] = file.trimEnd().split('\n')
  expect(begin).toBe('-----BEGIN LICENCE-----')
  expect(rest.at(-1)).toBe('-----END LICENCE-----')
  const jws = rest.slice(0, -1).find((line) => decodeProtectedHeader(line).kid === vendor.rootKey)
  const root = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: vendor.rootKey.slice(4) }, 'EdDSA')
  const { payload } = await compactVerify(jws!, root)
  const set = JSON.parse(new TextDecoder().decode(payload)) as { app_id: string; keys: JWK[]; exp: number }
  expect(set.app_id).toBe(vendor.appId)
  const { payload: claims } = await jwtVerify(token!, createLocalJWKSet(set), { audience: vendor.appId })
  return { token: token!, claims, set }
}

test('an offline activation returns a file for the requested days that can be verified with only the root key', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 7 }, external_ref: 'secret-customer' })
  const { status, body } = await activateOffline(licence, { fingerprint: 'machine-1', days: 366 })
  expect(status).toBe(201)
  const { activation_id: act, expires_at, file } = body
  expect(body).toEqual({ activation_id: act, licence_id: licence.id, expires_at, file })
  expect(expires_at).toMatch(isoTime)
  const { claims, set } = await opened(file)
  expect(claims).toMatchObject({
    sub: licence.id,
    aud: vendor.appId,
    act,
    plan_id: plan.id,
    status: 'active',
    entitlements: { export_pdf: 'true' },
    seats: 7,
    chk: 900,
    offline: true,
  })
  expect(claims.exp).toBe(claims.iat! + 366 * 86_400)
  expect(set.exp).toBe(claims.exp)
  expect(Date.parse(expires_at)).toBe(claims.exp! * 1000)
  expect(JSON.stringify([body, claims])).not.toContain('secret-customer')
  expect((await detail(licence.id)).activations).toMatchObject([
    { id: act, fingerprint: 'machine-1', ...installed },
  ])
  const again = await activateOffline(licence, { fingerprint: 'machine-1', days: 1 })
  expect(again).toMatchObject({ status: 200, body: { activation_id: act } })
})

test('a file is never valid longer than the licence', async () => {
  const expiresOn = inMs(5 * dayMs)
  const { body } = await activateOffline(await givenLicence({ expires_on: expiresOn }))
  expect(Date.parse(body.expires_at)).toBeLessThanOrEqual(Date.parse(expiresOn))
  expect((await opened(body.file)).claims.exp).toBe(Math.floor(Date.parse(expiresOn) / 1000))
})

test('each field is required and validated, days from 1 to 366', async () => {
  const licence = await givenLicence()
  const empty = await api.post(`${vendor.app}/offline-activations`, { body: {} })
  expectInvalid(empty, '/licence_key', '/fingerprint', '/host', '/product_version', '/days')
  for (const days of [0, 367, 1.5, '90', null]) {
    expectInvalid(await activateOffline(licence, { days }), '/days')
  }
  expectInvalid(await activateOffline(licence, { seat: 1 }), '/seat')
  expectInvalid(await activateOffline(licence, { host: 'a\nb' }), '/host')
  for (const nonce of ['', 'n'.repeat(129), 1]) {
    expectInvalid(await activateOffline(licence, { nonce }), '/nonce')
  }
})

test('it is refused for the same reasons as an activation', async () => {
  for (const key of ['00000-00000-00000-00000-00000', '', 'ü']) expectNotFound(await activateOffline({ key }))
  const licence = await givenLicence({ restrictions: { max_activations: 1, domains: ['*.example.com'] } })
  expectRefused(await activateOffline(licence, { host: 'example.org' }), 'domain_not_allowed')
  const { body: placed } = await activateOffline(licence, { fingerprint: 'a' })
  expectProblem(await activateOffline(licence), 409, 'limit_reached')
  expectProblem(await vendor.activate(licence), 409, 'limit_reached')
  expectStatus(await vendor.verb('suspend', licence.id), 200)
  expectRefused(await activateOffline(licence, { fingerprint: 'a' }), 'suspended')
  const { token } = await opened(placed.file)
  expectStatus(await vendor.deactivate({ ...placed, token }), 204)
})

test('a licence of another application is not found, and the scope issue is required', async () => {
  const licence = await givenLicence()
  const other = await givenVendor(stack)
  expectNotFound(await activateOffline(licence, {}, { app: other.app }))
  const { key } = await vendor.keyWith({ scopes: ['admin', 'read', 'revoke'] })
  expectProblem(await activateOffline(licence, {}, { key }), 403, 'insufficient_scope')
  expect((await detail(licence.id)).activations).toEqual([])
})

test('after a rotation the old key stays published as long as a file that it signed is valid', async () => {
  const { body } = await activateOffline(await givenLicence())
  const { token } = await opened(body.file)
  await rotateSigningKey(stack, vendor, '--lead-seconds', '0')
  await eventually(async () => {
    const ids = (await keySet(vendor)).keys.map(({ kid }) => kid)
    expect(ids).toHaveLength(2)
    expect(ids).toContain(decodeProtectedHeader(token).kid)
  })
  expectStatus(await vendor.refresh({ ...body, token }), 200)
})

test('if a machine’s clock was years ahead, a file for a new request licenses it, and an older file does not', async () => {
  const licence = await givenLicence()
  const store = memoryStore()
  let ahead = 0
  const start = async () => {
    const clock = () => Date.now() + ahead
    const options = { licenceKey: licence.key, fingerprint: 'press-hall', store, clock }
    const product = vendor.install({ baseUrl: 'http://127.0.0.1:9', ...options })
    await product.ready()
    return product
  }
  const fileFor = async (product: Awaited<ReturnType<typeof start>>) => {
    const request = JSON.parse(product.createOfflineRequest()) as Record<string, unknown>
    const { status, body } = await activateOffline(licence, request)
    expect([200, 201]).toContain(status)
    return body.file
  }
  const first = await start()
  const older = await fileFor(first)
  expect(await first.activateOffline(await fileFor(first))).toMatchObject({ status: 'licensed' })
  ahead = 4 * 365 * dayMs
  expect((await start()).state).toMatchObject({ status: 'lapsed' })
  ahead = 0
  const corrected = await start()
  expect(corrected.state).toMatchObject({ status: 'lapsed', clockTurnedBack: true })
  const newer = await fileFor(corrected)
  expect(await corrected.activateOffline(older)).toMatchObject({ status: 'lapsed' })
  const licensed = { status: 'licensed', clockTurnedBack: false }
  expect(await (await start()).activateOffline(newer)).toMatchObject(licensed)
  const later = await start()
  expect(later.state).toMatchObject({ status: 'licensed', offline: true })
  expect((Date.parse(later.state.expiresAt!) - Date.now()) / dayMs).toBeGreaterThan(89.9)
  expect(JSON.parse(later.createOfflineRequest())).not.toHaveProperty('nonce')
})
