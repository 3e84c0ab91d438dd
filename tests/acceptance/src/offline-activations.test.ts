import { LicenceClient, memoryStore } from '@licensing/sdk'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { eventually } from '@licensing/test-support/poll'
import { compactVerify, createLocalJWKSet, decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import type { JWK, JWTPayload } from 'jose'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Problem, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
beforeAll(async () => {
  const environment = {
    PRODUCT_RATE_PER_MINUTE: '100000',
    PRODUCT_WRONG_KEYS_PER_MINUTE: '100000',
    RATE_LIMIT_PER_MINUTE: '100000',
  }
  stack = await startStack({ environment })
  vendor = await givenVendor(stack)
  await vendor.define('export_pdf', 'feature', 'true')
})
afterAll(() => stack[Symbol.asyncDispose]())

interface OfflineActivation {
  activation_id: string
  licence_id: string
  expires_at: string
  file: string
}

const installed = { host: 'island.example.com', product_version: '4.2.0' }

async function givenLicence(fields: Record<string, unknown> = {}): Promise<Licence> {
  return vendor.issue((await vendor.plan()).id, fields)
}

const activateOffline = (
  licence: { key: string },
  fields: Record<string, unknown> = {},
  { app = vendor.app, key = stack.apiKey }: { app?: string; key?: string } = {},
) =>
  stack.api.post<OfflineActivation & Problem>(`${app}/offline-activations`, {
    key,
    body: { licence_key: licence.key, fingerprint: randomUUID(), days: 90, ...installed, ...fields },
  })

/** Verifies and reads the file with only the root key, as a machine without a network does. */
async function opened(file: string): Promise<{ token: string; claims: JWTPayload; set: { exp: number } }> {
  const { body } = await stack.api.get<{ root_key: string }>(vendor.app)
  const [begin, token, ...rest] = file.trimEnd().split('\n')
  expect(begin).toBe('-----BEGIN LICENCE-----')
  expect(rest.at(-1)).toBe('-----END LICENCE-----')
  const jws = rest.slice(0, -1).find((line) => decodeProtectedHeader(line).kid === body.root_key)
  const root = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: body.root_key.slice(4) }, 'EdDSA')
  const { payload } = await compactVerify(jws!, root)
  const set = JSON.parse(new TextDecoder().decode(payload)) as { app_id: string; keys: JWK[]; exp: number }
  expect(set.app_id).toBe(vendor.appId)
  const { payload: claims } = await jwtVerify(token!, createLocalJWKSet(set), { audience: vendor.appId })
  return { token: token!, claims, set }
}

test('an offline activation returns a file for the requested days that can be verified with only the root key', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 7 }, external_ref: 'secret-customer' })
  const answer = await activateOffline(licence, { fingerprint: 'machine-1', days: 366 })
  expect(answer.status).toBe(201)
  expect(Object.keys(answer.body).toSorted()).toEqual(['activation_id', 'expires_at', 'file', 'licence_id'])
  expect(answer.body).toMatchObject({ licence_id: licence.id })
  expect(answer.body.expires_at).toMatch(isoTime)
  const { claims, set } = await opened(answer.body.file)
  expect(claims).toMatchObject({
    sub: licence.id,
    aud: vendor.appId,
    act: answer.body.activation_id,
    plan_id: licence.plan_id,
    status: 'active',
    entitlements: { export_pdf: 'true' },
    seats: 7,
    chk: 900,
    offline: true,
  })
  expect(claims.exp).toBe(claims.iat! + 366 * 86_400)
  expect(set.exp).toBe(claims.exp)
  expect(Date.parse(answer.body.expires_at)).toBe(claims.exp! * 1000)
  expect(JSON.stringify([answer.body, claims])).not.toContain('secret-customer')

  const again = await activateOffline(licence, { fingerprint: 'machine-1', days: 1 })
  expect(again.status).toBe(200)
  expect(again.body.activation_id).toBe(answer.body.activation_id)
})

test('a file is never valid longer than the licence', async () => {
  const expiresOn = new Date(Date.now() + 5 * 86_400_000)
  const licence = await givenLicence({ expires_on: expiresOn.toISOString() })
  const { body } = await activateOffline(licence)
  expect(Date.parse(body.expires_at)).toBeLessThanOrEqual(expiresOn.getTime())
  expect((await opened(body.file)).claims.exp).toBe(Math.floor(expiresOn.getTime() / 1000))
})

test('each field is required and validated, days from 1 to 366', async () => {
  const licence = await givenLicence()
  const post = (body: unknown) => stack.api.post(`${vendor.app}/offline-activations`, { body })
  expectInvalid(await post({}), '/licence_key', '/fingerprint', '/host', '/product_version', '/days')
  for (const days of [0, -1, 367, 1.5, '90', null]) {
    expectInvalid(await activateOffline(licence, { days }), '/days')
  }
  expectInvalid(await activateOffline(licence, { seat: 1 }), '/seat')
  expectInvalid(await activateOffline(licence, { host: 'not a host' }), '/host')
  for (const nonce of ['', 'n'.repeat(129), 1]) {
    expectInvalid(await activateOffline(licence, { nonce }), '/nonce')
  }
  for (const days of [1, 366]) expect((await activateOffline(licence, { days })).status).toBe(201)
})

test('it is refused for the same reasons as an activation', async () => {
  for (const key of ['00000-00000-00000-00000-00000', '', 'no key', 'ü', 'A'.repeat(10_000)]) {
    expectProblem(await activateOffline({ key }), 404, 'not_found')
  }
  const licence = await givenLicence({ restrictions: { max_activations: 1, domains: ['*.example.com'] } })
  const elsewhere = await activateOffline(licence, { host: 'example.org' })
  expectProblem(elsewhere, 403, 'licence_refused')
  expect(elsewhere.body).toMatchObject({ reason: 'domain_not_allowed' })
  const { body: placed } = await activateOffline(licence, { fingerprint: 'a' })
  expectProblem(await activateOffline(licence), 409, 'limit_reached')
  expectProblem(await vendor.activate(licence), 409, 'limit_reached')
  expect((await vendor.verb('suspend', licence.id)).status).toBe(200)
  const suspended = await activateOffline(licence, { fingerprint: 'a' })
  expectProblem(suspended, 403, 'licence_refused')
  expect(suspended.body).toMatchObject({ reason: 'suspended' })

  const { token } = await opened(placed.file)
  expect((await stack.api.delete(`/v1/activations/${placed.activation_id}`, { key: token })).status).toBe(204)
})

test('a licence of another application is not found, and the scope issue is required', async () => {
  const licence = await givenLicence()
  const other = await givenVendor(stack, 'Other')
  expectProblem(await activateOffline(licence, {}, { app: other.app }), 404, 'not_found')
  const { body: reader } = await stack.api.post<{ key: string }>('/v1/api-keys', {
    body: { name: 'reader', scopes: ['admin', 'read', 'revoke'] },
  })
  expectProblem(await activateOffline(licence, {}, { key: reader.key }), 403, 'insufficient_scope')
  const { body: detail } = await stack.api.get<{ activations: unknown[] }>(`/v1/licences/${licence.id}`)
  expect(detail.activations).toEqual([])
})

test('the vendor sees an offline activation like any other', async () => {
  const licence = await givenLicence()
  const { body } = await activateOffline(licence, { fingerprint: 'island' })
  const { body: detail } = await stack.api.get<{ activations: unknown[] }>(`/v1/licences/${licence.id}`)
  expect(detail.activations).toMatchObject([{ id: body.activation_id, fingerprint: 'island', ...installed }])
})

test('after a rotation the old key stays published as long as a file that it signed is valid', async () => {
  const licence = await givenLicence()
  const { body } = await activateOffline(licence)
  const { token } = await opened(body.file)
  const program = new URL('../../../services/licensing/src/admin/rotate-signing-keys.ts', import.meta.url)
  const { ENCRYPTION_KEY } = stack.processes.licensing[0]!.environment
  await promisify(execFile)(
    process.execPath,
    [program.pathname, '--app', vendor.appId, '--lead-seconds', '0'],
    {
      env: { DATABASE_URL: stack.databaseUrls.licensing, ENCRYPTION_KEY },
    },
  )
  const path = `${vendor.app}/jwks.json`
  await eventually(async () => {
    const { keys } = (await stack.api.get<{ keys: JWK[] }>(path, { key: null })).body
    expect(keys).toHaveLength(2)
    expect(keys.map(({ kid }) => kid)).toContain(decodeProtectedHeader(token).kid)
  })
  const refreshed = await stack.api.post(`/v1/activations/${body.activation_id}/refresh`, {
    key: token,
    body: installed,
  })
  expect(refreshed.status).toBe(200)
})

test('if a machine’s clock was years ahead, a file for a new request licenses it, and an older file does not', async () => {
  const licence = await givenLicence()
  const { body: application } = await stack.api.get<{ root_key: string }>(vendor.app)
  const store = memoryStore()
  let ahead = 0
  const start = async () => {
    const product = new LicenceClient({
      baseUrl: 'http://127.0.0.1:9',
      appId: vendor.appId,
      rootKey: application.root_key,
      licenceKey: licence.key,
      fingerprint: 'press-hall',
      host: installed.host,
      productVersion: installed.product_version,
      store,
      clock: () => Date.now() + ahead,
      background: false,
    })
    await product.ready()
    return product
  }
  const fileFor = async (product: LicenceClient) => {
    const request = JSON.parse(product.createOfflineRequest()) as Record<string, unknown>
    const { status, body } = await activateOffline(licence, request)
    expect([200, 201]).toContain(status)
    return body.file
  }
  const first = await start()
  const older = await fileFor(first)
  expect(await first.activateOffline(await fileFor(first))).toMatchObject({ status: 'licensed' })
  ahead = 4 * 365 * 86_400_000
  expect((await start()).state).toMatchObject({ status: 'lapsed' })
  ahead = 0
  const corrected = await start()
  expect(corrected.state).toMatchObject({ status: 'lapsed', clockTurnedBack: true })
  const newer = await fileFor(corrected)
  expect(await corrected.activateOffline(older)).toMatchObject({ status: 'lapsed' })
  expect(await (await start()).activateOffline(newer)).toMatchObject({
    status: 'licensed',
    clockTurnedBack: false,
  })
  const later = await start()
  expect(later.state).toMatchObject({ status: 'licensed', offline: true })
  const days = (Date.parse(later.state.expiresAt!) - Date.now()) / 86_400_000
  expect(days).toBeGreaterThan(89.9)
  expect(JSON.parse(later.createOfflineRequest())).not.toHaveProperty('nonce')
})
