import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { expect, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import { publicKeys, revocations, rotateSigningKey } from './published.ts'
import {
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectRefused,
  expectStatus,
  givenReceiver,
  givenStack,
  givenVendor,
  inMs,
  installed,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Grant } from './vendor.ts'

const stack = await givenStack()
const receiver = await givenReceiver()
const vendor = await givenVendor(stack)
const { api, activate, refresh, callHome, deactivate, detail, verb } = vendor
await vendor.define('export_pdf', 'feature')
await vendor.define('max_projects', 'limit', '3')
const plan = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })

const givenLicence = (fields: Record<string, unknown> = {}) => vendor.issue(plan.id, fields)

async function givenActivation(licence: { key: string }, fields: Record<string, unknown> = {}) {
  const answer = await activate(licence, fields)
  expectStatus(answer, 201)
  return answer.body
}

async function verified({ token }: Grant) {
  const { payload } = await jwtVerify(token, await publicKeys(vendor), { audience: vendor.appId })
  return payload
}

test('an activation answers exactly the fields of the decisions, and its token has exactly these claims', async () => {
  const licence = await givenLicence({ restrictions: { max_seats: 7 }, external_ref: 'secret-customer' })
  const grant = await givenActivation(licence, { fingerprint: 'machine-1' })
  const claims = await verified(grant)
  expect(grant).toEqual({
    activation_id: expect.stringMatching(/^act_[0-7][0-9a-hjkmnp-tv-z]{25}$/) as string,
    licence_id: licence.id,
    token: grant.token,
    expires_at: new Date(claims.exp! * 1000).toISOString(),
    refresh_after: new Date((claims.iat! + 43_200) * 1000).toISOString(),
    check_interval_seconds: 900,
    lease_ends_at: null,
  })
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
  expect(JSON.stringify([grant, claims])).not.toContain('secret-customer')
  const again = await activate(licence, { fingerprint: 'machine-1', host: 'other.example.com' })
  expect(again).toMatchObject({ status: 200, body: { activation_id: grant.activation_id } })
})

test('a licence key is read without regard to case and hyphens, and any other key is not found', async () => {
  const licence = await givenLicence()
  for (const key of [licence.key.toLowerCase(), licence.key.replaceAll('-', '').toLowerCase()]) {
    expect((await activate({ key })).body.licence_id).toBe(licence.id)
  }
  for (const key of ['00000-00000-00000-00000-00000', '', 'ü'.repeat(25)]) {
    expectNotFound(await activate({ key }))
  }
})

test('each field of an activation is required and validated', async () => {
  const licence = await givenLicence()
  const empty = await api.post('/v1/activations', { key: null, body: {} })
  expectInvalid(empty, '/licence_key', '/fingerprint', '/host', '/product_version')
  for (const [field, value] of [
    ['fingerprint', 7],
    ['product_version', 4.2],
    ['host', ''],
    ['host', 'a\nb'],
    ['host', '\u0085'],
    ['host', 'x'.repeat(254)],
    ['licence_key', 7],
    ['seat', 1],
  ] as const) {
    expectInvalid(await activate(licence, { [field]: value }), `/${field}`)
  }
})

test('of 50 concurrent installations exactly max_activations are activated, and a freed activation can be used again', async () => {
  const licence = await givenLicence({ restrictions: { max_activations: 3 } })
  const answers = await Promise.all(Array.from({ length: 50 }, () => activate(licence)))
  const placed = answers.filter(({ status }) => status === 201)
  expect(placed).toHaveLength(3)
  for (const answer of answers) if (answer.status !== 201) expectProblem(answer, 409, 'limit_reached')
  expect((await detail(licence.id)).activations).toHaveLength(3)
  const { body: leaving } = placed[0]!
  expectStatus(await deactivate(leaving), 204)
  expectNotFound(await deactivate(leaving))
  await givenActivation(licence)
  expectProblem(await activate(licence), 409, 'limit_reached')
})

test('only allowed hosts are accepted: exact names, and subdomains of any depth under a star, in any case', async () => {
  const domains = ['App.Example.com', '*.Dev.example.com']
  const licence = await givenLicence({ restrictions: { domains } })
  for (const host of ['a.dev.example.com', 'x.y.DEV.example.com']) await givenActivation(licence, { host })
  for (const host of ['dev.example.com', 'example.com', 'app.example.com.evil.org', 'xdev.example.com']) {
    expectRefused(await activate(licence, { host }), 'domain_not_allowed')
  }
  const grant = await givenActivation(licence, { host: 'APP.example.com' })
  expectRefused(await refresh(grant, { host: 'elsewhere.example.org' }), 'domain_not_allowed')
  expectStatus(await refresh(grant, { host: 'App.example.com' }), 200)
})

test('a machine whose name is no host name can be activated, is found by its name, and matches no domain', async () => {
  const licence = await givenLicence()
  const restricted = await givenLicence({ restrictions: { domains: ['*.local', 'none'] } })
  for (const [host, stored] of [
    ['BÜRO-PC', 'büro-pc'],
    ['(none)', '(none)'],
    ['Anna’s MacBook Pro', 'anna’s macbook pro'],
    ['MBP.local.', 'mbp.local'],
    ['10.0.0.1', '10.0.0.1'],
  ] as const) {
    const grant = await givenActivation(licence, { host })
    expectStatus(await refresh(grant, { host }), 200)
    expectStatus(await callHome(grant, { host }), 204)
    expect((await detail(licence.id)).activations[0]).toMatchObject({ id: grant.activation_id, host: stored })
    for (const name of [host, stored]) {
      const q = encodeURIComponent(name)
      expect(await vendor.licences(`?domain=${q}`), name).toMatchObject([{ id: licence.id }])
      const found = await api.get(`${vendor.app}/search?q=${q}`)
      expect(found.body, name).toMatchObject({ data: [{ matched: 'host', licence: { id: licence.id } }] })
    }
    const answer = await activate(restricted, { host })
    if (stored === 'mbp.local') expectStatus(answer, 201)
    else expectRefused(answer, 'domain_not_allowed')
  }
})

test.each([
  ['suspend', 'suspended'],
  ['revoke', 'revoked'],
  ['retire', 'retired'],
])(
  'after %s the product is refused as %s at once, and may still call home and deactivate',
  async (name, status) => {
    const licence = await givenLicence()
    const grant = await givenActivation(licence, { fingerprint: 'one' })
    expectStatus(await verb(name, licence.id), 200)
    expectRefused(await refresh(grant), status)
    expectRefused(await activate(licence, { fingerprint: 'one' }), status)
    expectRefused(await activate(licence), status)
    expectStatus(await callHome(grant, { product_version: 'later' }), 204)
    expect((await detail(licence.id)).call_home[0]).toMatchObject({ product_version: 'later' })
    expectStatus(await deactivate(grant), 204)
  },
)

test('a token ends at expires_on at the latest, and from then on the product is refused, even before the sweep', async () => {
  await using seldomSwept = await startStack({ environment: { SWEEP_INTERVAL_SECONDS: '30' } })
  const own = await givenVendor(seldomSwept)
  const { id: planId } = await own.plan()
  // If a sweep comes first, the history says so, and another licence is tried.
  await eventually(async () => {
    const licence = await own.issue(planId)
    const { body: grant } = await own.activate(licence)
    const expires_on = inMs(4_000)
    expectStatus(await own.patch(licence.id, { expires_on }), 200)
    const { body: last } = await own.refresh(grant)
    expect(Date.parse(last.expires_at)).toBeLessThanOrEqual(Date.parse(expires_on))
    expect(decodeJwt(last.token).exp! * 1000).toBeLessThanOrEqual(Date.parse(expires_on))
    await eventually(() => Date.now() >= Date.parse(expires_on), { intervalMs: 5 })
    expectRefused(await own.refresh(grant), 'expired')
    expectRefused(await own.activate(licence), 'expired')
    expectStatus(await own.callHome(grant), 204)
    expect(await own.history(licence.id)).toMatchObject([{ type: 'changed' }, { type: 'issued' }])
  })
})

test('the sweep expires active and suspended licences at their end, with one event each', async () => {
  const own = await givenVendor(stack)
  const endpoint = await givenEndpoint(own, receiver, 'licence.expired')
  const { id: planId } = await own.plan()
  const [active, suspended, revoked, lasting] = [
    await own.issue(planId),
    await own.issue(planId),
    await own.issue(planId),
    await own.issue(planId, { expires_on: inMs(3_600_000) }),
  ]
  await verb('suspend', suspended.id)
  const expires_on = inMs(2_000)
  for (const { id } of [revoked, active, suspended]) expectStatus(await own.patch(id, { expires_on }), 200)
  await verb('revoke', revoked.id)
  const statusOf = async ({ id }: { id: string }) => (await detail(id)).status
  for (const each of [active, suspended]) {
    await eventually(async () => expect(await statusOf(each)).toBe('expired'))
  }
  expect([await statusOf(revoked), await statusOf(lasting)]).toEqual(['revoked', 'active'])
  expect((await api.get(`${own.app}/plans/${planId}`)).body).toMatchObject({ active_licences: 1 })
  const [entry] = await own.history(active.id)
  expect(entry).toMatchObject({ type: 'expired', from: 'active', to: 'expired', actor: 'sweep' })
  await endpoint.next(2)
  const expected = [active, suspended].map(({ id }) => ({ licence_id: id, status: 'expired' }))
  const events = endpoint.events().map(({ data }) => data.object)
  expect(events).toHaveLength(2)
  expect(events).toEqual(expect.arrayContaining(expected))
  for (const name of ['suspend', 'reactivate']) {
    const conflict = expectProblem(await verb(name, active.id), 409, 'conflict')
    expect(conflict).toMatchObject({ current: 'expired' })
  }
  expect((await verb('revoke', active.id)).body).toMatchObject({ status: 'revoked' })
  expect((await verb('retire', suspended.id)).body).toMatchObject({ status: 'retired' })
})

test('a refresh answers like the activation, with any token of the activation and with no other token', async () => {
  const licence = await givenLicence()
  const [grant, sibling] = [await givenActivation(licence), await givenActivation(licence)]
  const refreshed = await refresh(grant)
  expect(refreshed.status).toBe(200)
  expect(Object.keys(refreshed.body).toSorted()).toEqual(Object.keys(grant).toSorted())
  expect(decodeJwt(refreshed.body.token).jti).not.toBe(decodeJwt(grant.token).jti)
  expectStatus(await refresh(grant), 200)

  const [header, payload, signature] = grant.token.split('.') as [string, string, string]
  const forged = `${header}.${payload}.${signature.split('').toReversed().join('')}`
  for (const token of [null, 'nonsense', forged, sibling.token, stack.apiKey]) {
    const wrong = { ...grant, token }
    for (const answer of [await refresh(wrong), await callHome(wrong), await deactivate(wrong)]) {
      expectProblem(answer, 401, 'unauthenticated')
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  }
  expectStatus(await deactivate(grant), 204)
  expectNotFound(await refresh(grant))
  expectNotFound(await callHome(grant))
  expectNotFound(await refresh({ ...sibling, activation_id: 'act_nonsense' }))
  expectStatus(await refresh(sibling), 200)
})

test('the detail has the activations and the latest 50 call-homes, newest first, and licences are found by their hosts', async () => {
  const licence = await givenLicence()
  const grant = await givenActivation(licence, { fingerprint: 'machine', host: 'First.Example.org' })
  await refresh(grant, { host: 'second.example.org', product_version: '4.3' })
  for (let call = 1; call <= 50; call += 1) await callHome(grant, { product_version: `v${call}` })
  const { activations, call_home: calls } = await detail(licence.id)
  expect(activations).toEqual([
    {
      id: grant.activation_id,
      fingerprint: 'machine',
      host: installed.host,
      product_version: 'v50',
      created_at: expect.stringMatching(isoTime) as string,
      last_seen_at: calls[0]!.seen_at,
      lease_ends_at: null,
    },
  ])
  const seen_at = expect.stringMatching(isoTime) as string
  expect(calls[0]).toEqual({ host: installed.host, product_version: 'v50', seen_at })
  const versions = Array.from({ length: 50 }, (_, at) => `v${50 - at}`)
  expect(calls.map(({ product_version: version }) => version)).toEqual(versions)
  for (const host of ['first.example.org', 'SECOND.example.org']) {
    expect(await vendor.licences(`?domain=${host}`)).toMatchObject([{ id: licence.id }])
  }
})

test('an unknown application has no revocation list, no keys and no legacy keys', async () => {
  for (const app of [`/v1/apps/${unknownId('app')}`, '/v1/apps/nonsense']) {
    expectNotFound(await revocations({ api, app }))
    expectNotFound(await api.get(`${app}/jwks.json`, { key: null }))
    expectNotFound(await api.post(`${app}/migrate`, { key: null, body: { legacy_key: 'x' } }))
  }
})

test('after a rotation of the signing key tokens stay valid, and all replicas sign with the next key', async () => {
  const grant = await givenActivation(await givenLicence())
  const former = decodeProtectedHeader(grant.token).kid
  await rotateSigningKey(stack, vendor, '--lead-seconds', '2')
  let latest = grant
  for (let renewed = 0; renewed < 6;) {
    const answer = await refresh(latest)
    expectStatus(answer, 200)
    await verified(answer.body)
    if (decodeProtectedHeader(answer.body.token).kid !== former) renewed += 1
    latest = answer.body
  }
  await verified(grant)
  expectStatus(await refresh(grant), 200)
})

test('products are limited by address, with lower limits for wrong keys and new trials', async () => {
  await using limited = await startStack({
    environment: {
      PRODUCT_RATE_PER_MINUTE: '40',
      PRODUCT_WRONG_KEYS_PER_MINUTE: '5',
      PRODUCT_TRIALS_PER_DAY: '2',
    },
  })
  const own = await givenVendor(limited)
  const trial = await own.plan({ code: 'try', trial_days: 3 })
  // When this licence is issued, licensing knows the plan.
  await own.issue(trial.id)
  const tryOut = (fingerprint: string) =>
    own.api.post(`${own.app}/trials`, { key: null, body: { plan_code: 'try', fingerprint, ...installed } })
  for (const fingerprint of ['a', 'b']) expectStatus(await tryOut(fingerprint), 201)
  const tooMany = await tryOut('c')
  expectProblem(tooMany, 409, 'quota_exceeded')
  expect(tooMany.body).toMatchObject({ limit: 2 })
  expectStatus(await tryOut('a'), 200)
  const guess = () => own.activate({ key: '00000-00000-00000-00000-00000' })
  for (let tries = 0; tries < 5; tries += 1) expectNotFound(await guess())
  const stopped = await guess()
  expectProblem(stopped, 429, 'rate_limited')
  expect(Number(stopped.headers.get('retry-after'))).toBeGreaterThan(0)
  const lists = await Promise.all(Array.from({ length: 45 }, () => revocations(own)))
  expect(new Set(lists.map(({ status }) => status))).toEqual(new Set([200, 429]))
  expectStatus(await limited.api.get('/v1/account'), 200)
})
