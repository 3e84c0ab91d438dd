import type { ApiAnswer } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { publicKeys, revocations } from './published.ts'
import { expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Problem, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
beforeAll(async () => {
  const environment = {
    PRODUCT_RATE_PER_MINUTE: '100000',
    PRODUCT_WRONG_KEYS_PER_MINUTE: '100000',
    RATE_LIMIT_PER_MINUTE: '100000',
    SWEEP_INTERVAL_SECONDS: '30',
  }
  stack = await startStack({ environment, replicas: { licensing: 2, gateway: 2 } })
  vendor = await givenVendor(stack)
  await vendor.define('export_pdf', 'feature')
  await vendor.define('max_projects', 'limit', '3')
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Grant {
  activation_id: string
  licence_id: string
  token: string
  expires_at: string
  refresh_after: string
  check_interval_seconds: number
}

const entitlements = [{ key: 'export_pdf', value: 'true' }]

async function givenLicence(fields: Record<string, unknown> = {}): Promise<Licence> {
  const plan = await vendor.plan({ entitlements })
  return vendor.issue(plan.id, fields)
}

const installed = { host: 'build-7.example.com', product_version: '4.2.0' }

const activate = (licence: { key: string }, fields: Record<string, unknown> = {}) =>
  stack.api.post<Grant & Problem>('/v1/activations', {
    key: null,
    body: { licence_key: licence.key, fingerprint: randomUUID(), ...installed, ...fields },
  })

async function givenActivation(
  licence: { key: string },
  fields: Record<string, unknown> = {},
): Promise<Grant> {
  const answer = await activate(licence, fields)
  expect(answer.status).toBe(201)
  return answer.body
}

type OfActivation = Pick<Grant, 'activation_id'> & { token: string | null }

const refresh = ({ activation_id: id, token }: OfActivation, fields: Record<string, unknown> = {}) =>
  stack.api.post<Grant & Problem>(`/v1/activations/${id}/refresh`, {
    key: token,
    body: { ...installed, ...fields },
  })

const callHome = ({ activation_id: id, token }: OfActivation, fields: Record<string, unknown> = {}) =>
  stack.api.post(`/v1/activations/${id}/call-home`, { key: token, body: { ...installed, ...fields } })

const free = ({ activation_id: id, token }: OfActivation) =>
  stack.api.delete(`/v1/activations/${id}`, { key: token })

async function claimsOf({ token }: Grant) {
  const { payload } = await jwtVerify(token, createLocalJWKSet(await publicKeys(vendor)), {
    audience: vendor.appId,
  })
  return payload
}

interface Detail extends Licence {
  entitlements: unknown[]
  activations: { id: string; fingerprint: string; host: string; product_version: string }[]
  call_home: { host: string; product_version: string; seen_at: string }[]
}

async function detailOf(licence: { id: string }): Promise<Detail> {
  return (await stack.api.get<Detail>(`/v1/licences/${licence.id}`)).body
}

function expectRefused(answer: ApiAnswer<Problem>, reason: string): void {
  expectProblem(answer, 403, 'licence_refused')
  expect(answer.body).toMatchObject({ reason })
}

test('an activation answers exactly the fields of the decisions, and its token has exactly these claims', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 7 }, external_ref: 'secret-customer' })
  const answer = await activate(licence, { fingerprint: 'machine-1' })
  expect(answer.status).toBe(201)
  const grant = answer.body
  expect(Object.keys(grant).sort()).toEqual([
    'activation_id',
    'check_interval_seconds',
    'expires_at',
    'lease_ends_at',
    'licence_id',
    'refresh_after',
    'token',
  ])
  expect(grant).toMatchObject({ licence_id: licence.id, check_interval_seconds: 900 })
  expect(grant.activation_id).toMatch(/^act_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  const claims = await claimsOf(grant)
  expect(claims).toEqual({
    iss: expect.any(String) as string,
    sub: licence.id,
    aud: vendor.appId,
    jti: expect.any(String) as string,
    iat: expect.any(Number) as number,
    exp: claims.iat! + 86_400,
    act: grant.activation_id,
    plan_id: licence.plan_id,
    status: 'active',
    entitlements: { export_pdf: 'true', max_projects: '3' },
    seats: 7,
    upd: null,
    chk: 900,
  })
  expect(grant.expires_at).toMatch(isoTime)
  expect(grant.refresh_after).toMatch(isoTime)
  expect(Date.parse(grant.expires_at)).toBe(claims.exp! * 1000)
  expect(Date.parse(grant.refresh_after)).toBe((claims.iat! + 43_200) * 1000)
  expect(JSON.stringify([grant, claims])).not.toContain('secret-customer')

  const again = await activate(licence, { fingerprint: 'machine-1', host: 'other.example.com' })
  expect(again.status).toBe(200)
  expect(again.body.activation_id).toBe(grant.activation_id)
})

test('a licence key is read without regard to case and hyphens, and any other key is not found', async () => {
  const licence = await givenLicence()
  for (const key of [licence.key.toLowerCase(), licence.key.replaceAll('-', '').toLowerCase()]) {
    expect((await activate({ key })).body.licence_id).toBe(licence.id)
  }
  for (const key of ['00000-00000-00000-00000-00000', '', 'no key', 'ü'.repeat(25), 'A'.repeat(10_000)]) {
    expectProblem(await activate({ key }), 404, 'not_found')
  }
})

test('each field of an activation is required and validated', async () => {
  const licence = await givenLicence()
  const body = { licence_key: licence.key, fingerprint: 'one', ...installed }
  const post = (sent: unknown) => stack.api.post('/v1/activations', { key: null, body: sent })
  expectInvalid(await post({}), '/licence_key', '/fingerprint', '/host', '/product_version')
  const wrong: [string, unknown[]][] = [
    ['fingerprint', ['', 'x'.repeat(129), 7]],
    ['product_version', ['', 'x'.repeat(129), 4.2]],
    ['host', ['', `${'a.'.repeat(127)}com`, 'not a host', 'https://example.com']],
    ['licence_key', [7]],
  ]
  for (const [field, values] of wrong) {
    for (const value of values) expectInvalid(await post({ ...body, [field]: value }), `/${field}`)
  }
  expectInvalid(await post({ ...body, seat: 1 }), '/seat')
  expect(
    (await post({ ...body, fingerprint: 'é'.repeat(128), product_version: '版'.repeat(128) })).status,
  ).toBe(201)
})

test('of 50 concurrent installations exactly max_activations are activated, and a freed activation can be used again', async () => {
  for (const maxActivations of [1, 3, 10]) {
    const licence = await givenLicence({ restrictions: { max_activations: maxActivations } })
    const answers = await Promise.all(Array.from({ length: 50 }, () => activate(licence)))
    const placed = answers.filter((answer) => answer.status === 201)
    expect(placed).toHaveLength(maxActivations)
    for (const answer of answers) if (answer.status !== 201) expectProblem(answer, 409, 'limit_reached')
    expect((await detailOf(licence)).activations).toHaveLength(maxActivations)

    const { body: leaving } = placed[0]!
    expect((await free(leaving)).status).toBe(204)
    expectProblem(await free(leaving), 404, 'not_found')
    expect((await activate(licence)).status).toBe(201)
    expectProblem(await activate(licence), 409, 'limit_reached')
  }
})

test('only allowed hosts are accepted: exact names, and subdomains of any depth under a star, in any case', async () => {
  const licence = await givenLicence({
    restrictions: { domains: ['App.Example.com', '*.Dev.example.com'] },
  })
  for (const host of ['APP.example.com', 'a.dev.example.com', 'x.y.DEV.example.com']) {
    expect((await activate(licence, { host })).status).toBe(201)
  }
  for (const host of ['dev.example.com', 'example.com', 'app.example.com.evil.org', 'xdev.example.com']) {
    expectRefused(await activate(licence, { host }), 'domain_not_allowed')
  }
  const grant = await givenActivation(licence, { host: 'app.example.com' })
  expectRefused(await refresh(grant, { host: 'elsewhere.example.org' }), 'domain_not_allowed')
  expect((await refresh(grant, { host: 'App.example.com' })).status).toBe(200)
})

test.each([
  ['suspend', 'suspended'],
  ['revoke', 'revoked'],
  ['retire', 'retired'],
])(
  'after %s the product is refused as %s at once, and may still call home and deactivate',
  async (verb, status) => {
    const licence = await givenLicence()
    const grant = await givenActivation(licence, { fingerprint: 'one' })
    expect((await vendor.verb(verb, licence.id)).status).toBe(200)
    expectRefused(await refresh(grant), status)
    expectRefused(await activate(licence, { fingerprint: 'one' }), status)
    expectRefused(await activate(licence), status)
    expect((await callHome(grant, { product_version: 'later' })).status).toBe(204)
    expect((await detailOf(licence)).call_home[0]).toMatchObject({ product_version: 'later' })
    expect((await free(grant)).status).toBe(204)
  },
)

test('a token ends at expires_on at the latest, and from then on the product is refused, even before the sweep', async () => {
  const expiresOn = new Date(Date.now() + 10_000)
  const licence = await givenLicence({ expires_on: expiresOn.toISOString() })
  const grant = await givenActivation(licence)
  expect(Date.parse(grant.expires_at)).toBeLessThanOrEqual(expiresOn.getTime())
  await eventually(() => Date.now() > expiresOn.getTime() + 20)
  expectRefused(await refresh(grant), 'expired')
  expectRefused(await activate(licence), 'expired')
  expect((await callHome(grant)).status).toBe(204)
})

test('a refresh answers like the activation, with any token of the activation and with no other token', async () => {
  const licence = await givenLicence()
  const [grant, sibling] = [await givenActivation(licence), await givenActivation(licence)]
  const refreshed = await refresh(grant)
  expect(refreshed.status).toBe(200)
  expect(Object.keys(refreshed.body).sort()).toEqual(Object.keys(grant).sort())
  expect(decodeJwt(refreshed.body.token).jti).not.toBe(decodeJwt(grant.token).jti)
  expect((await refresh(grant)).status).toBe(200)

  const [header, payload, signature] = grant.token.split('.') as [string, string, string]
  const forged = `${header}.${payload}.${signature.split('').toReversed().join('')}`
  for (const token of [null, 'nonsense', forged, sibling.token, stack.apiKey]) {
    const wrong = { ...grant, token }
    for (const answer of [await refresh(wrong), await callHome(wrong), await free(wrong)]) {
      expectProblem(answer, 401, 'unauthenticated')
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  }
  expect((await free(grant)).status).toBe(204)
  expectProblem(await refresh(grant), 404, 'not_found')
  expectProblem(await callHome(grant), 404, 'not_found')
  expectProblem(await refresh({ ...sibling, activation_id: 'act_nonsense' }), 404, 'not_found')
  expect((await refresh(sibling)).status).toBe(200)
})

test('activations and call-homes are listed, newest first, and licences can be filtered by them', async () => {
  const licence = await givenLicence()
  const quiet = await givenLicence()
  const listed = async (query: string) => {
    const page = await stack.api.get<{ data: Licence[] }>(`${vendor.app}/licences?limit=200&${query}`)
    return page.body.data.map(({ id }) => id)
  }
  expect(await listed('last_seen=never')).toEqual(expect.arrayContaining([licence.id, quiet.id]))
  const before = new Date().toISOString()
  const grant = await givenActivation(licence, { fingerprint: 'machine', host: 'First.Example.org' })
  await refresh(grant, { host: 'second.example.org', product_version: '4.3' })
  for (let call = 1; call <= 55; call += 1) await callHome(grant, { product_version: `v${call}` })
  const detail = await detailOf(licence)
  expect(detail.activations).toEqual([
    {
      id: grant.activation_id,
      fingerprint: 'machine',
      host: installed.host,
      product_version: 'v55',
      created_at: expect.stringMatching(isoTime) as string,
      last_seen_at: detail.call_home[0]!.seen_at,
      lease_ends_at: null,
    },
  ])
  expect(detail.call_home.map(({ product_version: version }) => version)).toEqual(
    Array.from({ length: 50 }, (_, at) => `v${55 - at}`),
  )
  expect(await listed('domain=first.example.org')).toEqual([licence.id])
  expect(await listed('domain=SECOND.example.org')).toEqual([licence.id])
  expect(await listed('last_seen=never')).not.toContain(licence.id)
  const since = await listed(`last_seen=${encodeURIComponent(before)}`)
  expect(since).toContain(licence.id)
  expect(since).not.toContain(quiet.id)
})

test('an unknown application has no revocation list, no keys and no legacy keys', async () => {
  const { api } = stack
  for (const app of ['/v1/apps/app_01h455vb4pex5vsknk084sn02q', '/v1/apps/nonsense']) {
    const answers = [
      await revocations({ api, app }),
      await api.get(`${app}/jwks.json`, { key: null }),
      await api.post(`${app}/migrate`, { key: null, body: { legacy_key: 'x' } }),
    ]
    expect(answers.map((answer) => expectProblem(answer, 404, 'not_found').code)).toHaveLength(3)
  }
})

test('after a rotation of the signing key tokens stay valid, and all replicas sign with the next key', async () => {
  const licence = await givenLicence()
  const grant = await givenActivation(licence)
  const former = decodeProtectedHeader(grant.token).kid
  const { ENCRYPTION_KEY } = stack.processes.licensing[0]!.environment
  const rotate = new URL('../../../services/licensing/src/admin/rotate-signing-keys.ts', import.meta.url)
  await promisify(execFile)(
    process.execPath,
    [rotate.pathname, '--app', vendor.appId, '--lead-seconds', '2'],
    { env: { DATABASE_URL: stack.databaseUrls.licensing, ENCRYPTION_KEY } },
  )
  await eventually(async () => expect((await publicKeys(vendor)).keys).toHaveLength(2))
  let latest = grant
  for (let renewed = 0; renewed < 6;) {
    const answer = await refresh(latest)
    expect(answer.status).toBe(200)
    await claimsOf(answer.body)
    if (decodeProtectedHeader(answer.body.token).kid !== former) renewed += 1
    latest = answer.body
  }
  await claimsOf(grant)
  expect((await refresh(grant)).status).toBe(200)
})

test('products are limited by address, with lower limits for wrong keys and new trials', async () => {
  const environment = {
    PRODUCT_RATE_PER_MINUTE: '40',
    PRODUCT_WRONG_KEYS_PER_MINUTE: '5',
    PRODUCT_TRIALS_PER_DAY: '2',
  }
  await using limited = await startStack({ environment })
  const plan = await limited.api.post(`/v1/apps/${limited.appId}/plans`, {
    body: { name: 'Trial', code: 'try', trial_days: 3 },
  })
  expect(plan.status).toBe(201)
  const tryOut = (fingerprint: string) =>
    limited.api.post(`/v1/apps/${limited.appId}/trials`, {
      key: null,
      body: { plan_code: 'try', fingerprint, ...installed },
    })
  // When this licence is issued, licensing knows the plan.
  const issued = await limited.api.post(`/v1/apps/${limited.appId}/licences`, {
    headers: { 'idempotency-key': 'first' },
    body: { plan_id: plan.body.id, external_ref: 'customer' },
  })
  expect(issued.status).toBe(201)
  expect((await tryOut('a')).status).toBe(201)
  expect((await tryOut('b')).status).toBe(201)
  const tooMany = await tryOut('c')
  expectProblem(tooMany, 429, 'rate_limited')
  expect(Number(tooMany.headers.get('retry-after'))).toBeGreaterThan(3600)
  expect((await tryOut('a')).status).toBe(200)
  const post = (body: unknown) => limited.api.post('/v1/activations', { key: null, body })
  const guess = { licence_key: '00000-00000-00000-00000-00000', fingerprint: 'f', ...installed }
  for (let tries = 0; tries < 5; tries += 1) expectProblem(await post(guess), 404, 'not_found')
  const stopped = await post(guess)
  expectProblem(stopped, 429, 'rate_limited')
  expect(Number(stopped.headers.get('retry-after'))).toBeGreaterThan(0)
  const list = () => limited.api.get(`/v1/apps/${limited.appId}/revocations`, { key: null })
  const statuses = []
  for (let calls = 0; calls < 45; calls += 1) statuses.push((await list()).status)
  expect(statuses[0]).toBe(200)
  expect(statuses.at(-1)).toBe(429)
  expect((await limited.api.get('/v1/account')).status).toBe(200)
})
