import type { ApiRequest } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import {
  dayMs,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectRefused,
  expectStatus,
  givenVendor,
  inMs,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Grant, Vendor } from './vendor.ts'

const studio = await givenStudio()
const { api, app, activate, detail, history, issue, verb } = studio
const { id: planId } = await studio.plan()
const { gatewayUrl } = studio.market.stack

interface Link {
  url: string | null
  expires_at: string
}

interface CustomerLicence {
  status: string
  activations: { id: string }[]
  activations_total: number
  frees_left: number
  offline_days: number
  subscription: { renews_on: string | null; cancels_on: string | null } | null
  [field: string]: unknown
}

const sessionsOf = ({ id }: { id: string }) => `/v1/licences/${id}/customer-sessions`
const link = (licence: { id: string }, body?: unknown, request: ApiRequest = {}) =>
  api.post<Link>(sessionsOf(licence), { ...request, ...(body !== undefined && { body }) })

/** The calls of a customer with this token. */
function customer(token: string | null, { api }: Pick<Vendor, 'api'> = studio) {
  const get = () => api.get<CustomerLicence>('/v1/customer/licence', { key: token })
  return {
    token,
    get,
    licence: async () => {
      const answer = await get()
      expectStatus(answer, 200)
      return answer.body
    },
    remove: (id: string) => api.delete(`/v1/customer/activations/${id}`, { key: token }),
    offline: (body: object) =>
      api.post<Grant & { file: string }>('/v1/customer/offline-activations', { key: token, body }),
    manage: () => api.post<{ url: string }>('/v1/customer/subscription-sessions', { key: token }),
  }
}

async function linked(licence: { id: string }, body?: object) {
  const answer = await link(licence, body)
  expectStatus(answer, 201)
  return customer(answer.body.url!.split('#')[1]!)
}

const setPage = (customer_page: unknown, path = app) => api.patch(path, { body: { customer_page } })

/** An application whose page has these settings. They count when this returns. */
async function givenPage(page: object) {
  const own = await givenStudio(studio.market)
  const answer = await setPage(page, own.app)
  expectStatus(answer, 200)
  const plan = await own.plan()
  const { frees_per_day, offline_days } = answer.body['customer_page'] as CustomerLicence
  const visitor = await linked(await own.issue(plan.id))
  await eventually(
    async () => expect(await visitor.licence()).toMatchObject({ frees_left: frees_per_day, offline_days }),
    { timeoutMs: 5_000 },
  )
  return { ...own, planId: plan.id }
}

const activated = async (licence: { key: string }, fields: object = {}) => {
  const answer = await activate(licence, { ...fields })
  expectStatus(answer, 201)
  return answer.body
}

const defaults = {
  support_url: null,
  accent_color: null,
  frees_per_day: 3,
  offline_days: 0,
  key_sign_in: false,
}

test('a link is the customer’s page with a token, for 60 minutes or as many as asked, for every status', async () => {
  const licence = await issue(planId)
  for (const [body, minutes] of [
    [undefined, 60],
    [{}, 60],
    [{ minutes: 5 }, 5],
    [{ minutes: 1_440 }, 1_440],
  ] as const) {
    const { status, body: made } = await link(licence, body)
    expect(status).toBe(201)
    expect(made).toEqual({
      url: expect.stringMatching(/#cst_[A-Za-z0-9_-]+$/) as string,
      expires_at: expect.stringMatching(isoTime) as string,
    })
    expect(made.url!.startsWith(`${gatewayUrl}/customer#cst_`), made.url!).toBe(true)
    expect(Math.abs(Date.parse(made.expires_at) - Date.now() - minutes * 60_000)).toBeLessThan(20_000)
    const visitor = customer(made.url!.split('#')[1]!)
    expect(await visitor.licence()).toMatchObject({ key: licence.key, expires_at: made.expires_at })
  }
  for (const [end, status] of [
    ['suspend', 'suspended'],
    ['revoke', 'revoked'],
    ['retire', 'retired'],
  ] as const) {
    const ended = await issue(planId)
    expectStatus(await verb(end, ended.id), 200)
    expect(await (await linked(ended)).licence()).toMatchObject({ status })
  }
  expectNotFound(await link({ id: unknownId('lic') }))
})

test('minutes and the address to return to are checked', async () => {
  const licence = await issue(planId)
  for (const minutes of [4, 1_441, 0, -5, 7.5, '60', true])
    expectInvalid(await link(licence, { minutes }), '/minutes')
  const long = (length: number) => `https://shop.example.com/`.padEnd(length, 'a')
  for (const return_url of [
    'http://shop.example.com/',
    'shop.example.com',
    'https://user@shop.example.com/',
    'https://user:secret@shop.example.com/',
    'javascript:alert(1)',
    'https://',
    '',
    7,
    long(2_049),
  ])
    expectInvalid(await link(licence, { return_url }), '/return_url')
  expectInvalid(await link(licence, { hours: 1 }), '/hours')
  for (const return_url of ['https://shop.example.com/account?a=1#b', long(2_048)]) {
    expect(await (await linked(licence, { return_url })).licence()).toMatchObject({ return_url })
  }
  expect(await (await linked(licence)).licence()).toMatchObject({ return_url: null })
})

test('a replay of a link has no address', async () => {
  const licence = await issue(planId)
  const headers = { 'idempotency-key': randomUUID() }
  const first = await link(licence, {}, { headers })
  const again = await link(licence, {}, { headers })
  expectStatus(again, 201)
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect(again.body).toEqual({ url: null, expires_at: first.body.expires_at })
  await customer(first.body.url!.split('#')[1]!).licence()
})

test('all sessions of a licence end together within 2 seconds, those by key too, and those of others go on', async () => {
  const own = await givenPage({ key_sign_in: true })
  const [licence, other] = [await own.issue(own.planId), await own.issue(own.planId)]
  const byKey = await api.post<{ token: string }>(`${own.app}/customer-sessions`, {
    key: null,
    body: { licence_key: licence.key },
  })
  expectStatus(byKey, 201)
  const sessions = [await linked(licence), await linked(licence), customer(byKey.body.token)]
  const foreign = await linked(other)
  for (const session of sessions) await session.licence()
  expectStatus(await api.delete(sessionsOf(licence)), 204)
  await eventually(
    async () => {
      for (const session of sessions) expectProblem(await session.get(), 401, 'unauthenticated')
    },
    { timeoutMs: 2_000 },
  )
  await foreign.licence()
  await (await linked(licence)).licence()
  expectNotFound(await api.delete(sessionsOf({ id: unknownId('lic') })))
})

test('links need the scope issue; a key that is bound to the application works, and another one does not', async () => {
  const licence = await issue(planId)
  const other = await givenVendor(studio.market.stack)
  const bound = await studio.keyWith({ scopes: ['issue'], app_id: studio.appId })
  const foreign = await studio.keyWith({ scopes: ['issue'], app_id: other.appId })
  const reads = await studio.keyWith({ scopes: ['read'] })
  expectStatus(await link(licence, {}, { key: bound.key }), 201)
  expectStatus(await api.delete(sessionsOf(licence), { key: bound.key }), 204)
  expectNotFound(await link(licence, {}, { key: foreign.key }))
  expectNotFound(await api.delete(sessionsOf(licence), { key: foreign.key }))
  expectProblem(await link(licence, {}, { key: reads.key }), 403, 'insufficient_scope')
  expectProblem(await api.delete(sessionsOf(licence), { key: reads.key }), 403, 'insufficient_scope')
  const { token } = await linked(licence)
  for (const key of [null, token]) expectProblem(await link(licence, {}, { key }), 401, 'unauthenticated')
})

test('the page’s settings have defaults; a change leaves the other fields, and null sets the default', async () => {
  const own = await givenVendor(studio.market.stack)
  const page = async () => (await api.get(own.app)).body['customer_page']
  expect(await page()).toEqual(defaults)
  const changed = await setPage({ frees_per_day: 100, accent_color: '#0B6e4f' }, own.app)
  const first = { ...defaults, frees_per_day: 100, accent_color: '#0B6e4f' }
  expect(changed).toMatchObject({ status: 200, body: { customer_page: first } })
  expect(await page()).toEqual(first)
  const all = { support_url: 'mailto:help@example.com', offline_days: 366, key_sign_in: true }
  await setPage(all, own.app)
  expect(await page()).toEqual({ ...first, ...all })
  for (const nothing of [{}, undefined]) await setPage(nothing, own.app)
  await api.patch(own.app, { body: { name: 'Atelier' } })
  expect(await page()).toEqual({ ...first, ...all })
  await setPage({ frees_per_day: null, support_url: 'https://example.com/help' }, own.app)
  expect(await page()).toEqual({
    ...first,
    ...all,
    frees_per_day: 3,
    support_url: 'https://example.com/help',
  })
  await setPage(Object.fromEntries(Object.keys(defaults).map((field) => [field, null])), own.app)
  expect(await page()).toEqual(defaults)
  await setPage({ frees_per_day: 0, offline_days: 0, key_sign_in: false }, own.app)
  expect(await page()).toEqual({ ...defaults, frees_per_day: 0 })
})

test('a setting of the page that is not allowed is refused with its pointer, and changes nothing', async () => {
  const own = await givenVendor(studio.market.stack)
  const wrong: Record<string, unknown[]> = {
    support_url: ['http://example.com/', 'javascript:alert(1)', 'mailto:', 'example.com', '', 7],
    accent_color: ['0b6e4f', '#0b6e4', '#0b6e4f0', '#0b6e4g', 'red', '#fff', '', 7],
    frees_per_day: [-1, 101, 1.5, '3', true],
    offline_days: [-1, 367, 1.5, '3'],
    key_sign_in: ['true', 1],
    colour: ['#000000'],
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      expectInvalid(await setPage({ key_sign_in: true, [field]: value }, own.app), `/customer_page/${field}`)
    }
  }
  for (const page of ['x', [], 1]) expectInvalid(await setPage(page, own.app), '/customer_page')
  expect((await api.get(own.app)).body['customer_page']).toEqual(defaults)
  const issues = await studio.keyWith({ scopes: ['issue'] })
  const body = { customer_page: { frees_per_day: 1 } }
  expectProblem(await api.patch(own.app, { key: issues.key, body }), 403, 'insufficient_scope')
})

test('customers sign in with a key only if the application allows it, and open sessions go on when it is turned off', async () => {
  const own = await givenVendor(studio.market.stack)
  const licence = await own.issue((await own.plan()).id)
  const look = (path = own.app) => api.get(`${path}/customer-page`, { key: null })
  const signIn = (licence_key: unknown, path = own.app) =>
    api.post<{ token: string; expires_at: string }>(`${path}/customer-sessions`, {
      key: null,
      body: { licence_key },
    })
  const page = (id = own.appId) => fetch(`${gatewayUrl}/customer/${id}`)
  const isOff = async () => {
    expectNotFound(await look())
    expectNotFound(await signIn(licence.key))
    expect((await page()).status).toBe(404)
  }
  await isOff()
  await setPage(
    { key_sign_in: true, accent_color: '#123456', support_url: 'https://example.com/help' },
    own.app,
  )
  await eventually(async () => expectStatus(await look(), 200), { timeoutMs: 5_000 })
  expect((await look()).body).toEqual({
    name: 'Studio',
    support_url: 'https://example.com/help',
    accent_color: '#123456',
  })
  expect((await page()).status).toBe(200)
  const { status, body } = await signIn(licence.key)
  expect(status).toBe(201)
  expect(body).toEqual({
    token: expect.stringMatching(/^cst_/) as string,
    expires_at: expect.stringMatching(isoTime) as string,
  })
  expect(Math.abs(Date.parse(body.expires_at) - Date.now() - 60 * 60_000)).toBeLessThan(20_000)
  const visitor = customer(body.token)
  expect(await visitor.licence()).toMatchObject({ key: licence.key, expires_at: body.expires_at })

  const foreign = await issue(planId)
  for (const key of [foreign.key, '00000-00000-00000-00000-00000', 'x', '']) expectNotFound(await signIn(key))
  expectInvalid(await signIn(7), '/licence_key')
  for (const path of [app, `/v1/apps/${unknownId('app')}`, '/v1/apps/x']) {
    expectNotFound(await look(path))
    expectNotFound(await signIn(licence.key, path))
  }
  for (const id of [studio.appId, unknownId('app'), 'x']) expect((await page(id)).status).toBe(404)

  await setPage({ key_sign_in: false }, own.app)
  await eventually(isOff, { timeoutMs: 5_000 })
  await visitor.licence()
})

test('a token that is absent, wrong or ended, an API key and a product’s token are 401 for each call', async () => {
  const licence = await issue(planId)
  const { token, activation_id } = await activated(licence)
  const ended = await linked(licence)
  await api.delete(sessionsOf(licence))
  const genuine = await linked(licence)
  for (const wrong of [
    null,
    'cst_',
    'cst_x',
    genuine.token!.slice(0, -2),
    genuine.token!.slice(4),
    ended.token,
    token,
    studio.market.stack.apiKey,
    licence.key,
  ]) {
    const visitor = customer(wrong)
    for (const answer of [
      await visitor.get(),
      await visitor.remove(activation_id),
      await visitor.offline({ request: '{}', days: 1 }),
      await visitor.manage(),
    ])
      expectProblem(answer, 401, 'unauthenticated')
  }
  expect(await genuine.licence()).toMatchObject({ activations_total: 1 })
})

test('wrong tokens and wrong keys count for their address, ended ones do not, and others still sign in', async () => {
  await using stack = await startStack({
    environment: { PRODUCT_WRONG_KEYS_PER_MINUTE: '5', PRODUCT_RATE_PER_MINUTE: '60' },
  })
  const own = await givenVendor(stack)
  const licence = await own.issue((await own.plan()).id)
  const made = await own.api.post<Link>(sessionsOf(licence))
  const visitor = customer(made.body.url!.split('#')[1]!, own)
  await own.api.delete(sessionsOf(licence))
  for (let tries = 0; tries < 8; tries += 1) expectProblem(await visitor.get(), 401, 'unauthenticated')
  await own.api.patch(own.app, { body: { customer_page: { key_sign_in: true } } })
  const signIn = (licence_key: string) =>
    own.api.post<{ token: string }>(`${own.app}/customer-sessions`, { key: null, body: { licence_key } })
  const signedIn = await eventually(async () => {
    const answer = await signIn(licence.key)
    expectStatus(answer, 201)
    return customer(answer.body.token, own)
  })
  for (let tries = 0; tries < 3; tries += 1) expectNotFound(await signIn('00000-00000-00000-00000-00000'))
  const forged = customer('cst_forged', own)
  for (let tries = 0; tries < 2; tries += 1) expectProblem(await forged.get(), 401, 'unauthenticated')
  for (const stopped of [await forged.get(), await signIn('x')]) {
    expectProblem(stopped, 429, 'rate_limited')
    expect(Number(stopped.headers.get('retry-after'))).toBeGreaterThan(0)
  }
  expectStatus(await signedIn.get(), 200)
  const answers = await Promise.all(Array.from({ length: 65 }, () => signedIn.get()))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
})

test('the customer sees exactly what is listed of the licence, and nothing else of the vendor', async () => {
  const own = await givenPage({
    accent_color: '#0b6e4f',
    support_url: 'mailto:help@example.com',
    offline_days: 30,
  })
  const plan = await own.plan({ name: 'Team' })
  const licence = await own.issue(plan.id, {
    external_ref: 'secret-reference',
    metadata: { note: 'secret-metadata' },
    expires_on: inMs(90 * dayMs),
    updates_until: inMs(30 * dayMs),
    restrictions: { max_activations: 200, max_concurrent: 4 },
  })
  const { activation_id } = await activated(licence, {
    fingerprint: 'secret-fingerprint',
    host: 'laptop.example.com',
  })
  const visitor = await linked(licence, { return_url: 'https://shop.example.com/' })
  const seen = await visitor.licence()
  const ofVendor = await own.detail(licence.id)
  expect(seen).toEqual({
    app: { name: 'Studio', support_url: 'mailto:help@example.com', accent_color: '#0b6e4f' },
    key: licence.key,
    plan_name: 'Team',
    status: 'active',
    status_reason: null,
    expires_on: ofVendor.expires_on,
    updates_until: ofVendor.updates_until,
    trial: false,
    entitlements: [
      { key: 'export_pdf', display_name: 'export_pdf', kind: 'feature', value: 'false' },
      { key: 'projects', display_name: 'projects', kind: 'limit', value: '3' },
    ],
    activations: [
      {
        id: activation_id,
        host: 'laptop.example.com',
        product_version: '4.2.0',
        created_at: expect.stringMatching(isoTime) as string,
        last_seen_at: expect.stringMatching(isoTime) as string,
        lease_ends_at: ofVendor.activations[0]!.lease_ends_at,
      },
    ],
    activations_total: 1,
    max_activations: 200,
    max_concurrent: 4,
    leases_in_use: 1,
    frees_left: 3,
    offline_days: 30,
    subscription: null,
    return_url: 'https://shop.example.com/',
    expires_at: expect.stringMatching(isoTime) as string,
  })
  const hidden = ['secret-', licence.id, plan.id, plan.code, own.appId, studio.market.stack.accountId]
  for (const text of hidden) expect(JSON.stringify(seen)).not.toContain(text)
  const ordinary = await (await linked(await issue(planId))).licence()
  expect(ordinary).toMatchObject({ max_activations: null, max_concurrent: null, leases_in_use: 0 })
})

test('entitlements are the effective ones by display name, or by key if the definition was deleted', async () => {
  const own = await givenVendor(studio.market.stack)
  const define = async (body: object) => {
    const answer = await api.post<{ id: string }>(`${own.app}/entitlement-defs`, { body })
    expectStatus(answer, 201)
    return answer.body
  }
  await define({ key: 'export_pdf', kind: 'feature', display_name: 'Export as PDF' })
  await define({ key: 'projects', kind: 'limit', default: '3', display_name: 'Projects' })
  const gone = await define({ key: 'gone', kind: 'feature', display_name: 'Gone' })
  const plan = await own.plan({
    entitlements: [
      { key: 'export_pdf', value: 'true' },
      { key: 'projects', value: '10' },
      { key: 'gone', value: 'true' },
    ],
  })
  const licence = await own.issue(plan.id)
  const overridden = await api.put(`/v1/licences/${licence.id}/overrides/projects`, { body: { value: '25' } })
  expectStatus(overridden, 200)
  const visitor = await linked(licence)
  const shown = async () =>
    (await visitor.licence())['entitlements'] as { key: string; display_name: string; value: string }[]
  const { effective } = await own.detail(licence.id)
  const expected = [
    { key: 'export_pdf', display_name: 'Export as PDF', kind: 'feature', value: 'true' },
    { key: 'projects', display_name: 'Projects', kind: 'limit', value: '25' },
    { key: 'gone', display_name: 'Gone', kind: 'feature', value: 'true' },
  ]
  const sorted = (rows: { key: string }[]) => rows.toSorted((a, b) => a.key.localeCompare(b.key))
  expect(sorted(await shown())).toEqual(sorted(expected))
  expect((await shown()).map(({ key }) => key)).toEqual(effective.map(({ key }) => key))
  await api.delete(`${own.app}/entitlement-defs/${gone.id}`)
  const left = (await own.detail(licence.id)).effective.map(({ key }) => key)
  await eventually(async () => {
    const rows = await shown()
    expect(rows.map(({ key }) => key)).toEqual(left)
    if (left.includes('gone')) expect(rows.find(({ key }) => key === 'gone')!.display_name).toBe('gone')
  })
})

test('the newest 100 machines are listed, and all are counted', async () => {
  const licence = await issue(planId)
  const machines: string[] = []
  for (let at = 0; at < 104; at += 8) {
    const granted = await Promise.all(Array.from({ length: 8 }, () => activated(licence)))
    machines.push(...granted.map(({ activation_id: id }) => id))
  }
  const { activations, activations_total } = await (await linked(licence)).licence()
  expect(activations_total).toBe(104)
  expect(activations).toHaveLength(100)
  const listed = new Set(activations.map(({ id }) => id))
  for (const id of machines.slice(8)) expect(listed).toContain(id)
})

test('a customer removes machines, as many a day as the vendor allows, however many calls arrive at once', async () => {
  const licence = await issue(planId)
  const machines = await Promise.all(Array.from({ length: 20 }, () => activated(licence)))
  const [visitor, other] = [await linked(licence), await linked(licence)]
  expect(await visitor.licence()).toMatchObject({ frees_left: 3 })
  const answers = await Promise.all(
    machines.map(({ activation_id: id }, at) => (at % 2 === 0 ? visitor : other).remove(id)),
  )
  const removed = machines.filter((_, at) => answers[at]!.status === 204)
  expect(removed).toHaveLength(3)
  for (const answer of answers) if (answer.status !== 204) expectProblem(answer, 409, 'quota_exceeded')
  expect(await visitor.licence()).toMatchObject({ frees_left: 0, activations_total: 17 })
  expect((await detail(licence.id)).activations_total).toBe(17)
  const entries = (await history(licence.id)).filter(({ type }) => type === 'activation_freed')
  expect(entries.map(({ actor, cause }) => ({ actor, cause }))).toEqual(
    expect.arrayContaining(removed.map(({ activation_id }) => ({ actor: 'customer', cause: activation_id }))),
  )
  expect(entries).toHaveLength(3)
  expectNotFound(await visitor.remove(removed[0]!.activation_id))
  expectStatus(await studio.refresh(machines.find((each) => !removed.includes(each))!), 200)
  expect((await studio.refresh(removed[0]!)).status).toBeGreaterThanOrEqual(401)
})

test('an unknown, freed or foreign machine is 404 and counts nothing; suspended and revoked licences can be freed', async () => {
  const [licence, foreign] = [await issue(planId), await issue(planId)]
  const [machine, last] = [await activated(licence), await activated(licence)]
  const { activation_id: of } = await activated(foreign)
  const visitor = await linked(licence)
  for (const id of [unknownId('act'), of, 'x']) expectNotFound(await visitor.remove(id))
  expect(await visitor.licence()).toMatchObject({ frees_left: 3 })
  await verb('suspend', licence.id)
  expectStatus(await visitor.remove(machine.activation_id), 204)
  expectNotFound(await visitor.remove(machine.activation_id))
  await verb('revoke', licence.id)
  expectStatus(await visitor.remove(last.activation_id), 204)
  expect(await visitor.licence()).toMatchObject({ frees_left: 1, activations_total: 0, status: 'revoked' })
  expect((await detail(foreign.id)).activations_total).toBe(1)
})

test('a lower or higher number of removals a day counts within 5 seconds, and 0 allows none', async () => {
  const own = await givenPage({ frees_per_day: 0 })
  const licence = await own.issue(own.planId)
  const machine = await activated(licence)
  const visitor = await linked(licence)
  expectProblem(await visitor.remove(machine.activation_id), 409, 'quota_exceeded')
  await setPage({ frees_per_day: 1 }, own.app)
  await eventually(async () => expectStatus(await visitor.remove(machine.activation_id), 204), {
    timeoutMs: 5_000,
  })
})

test('a machine with a licence file cannot be removed until its file has ended, and the answer says until when', async () => {
  const licence = await issue(planId)
  const { body } = await studio.activateOffline(licence, 30)
  const visitor = await linked(licence)
  const { detail: text } = expectProblem(await visitor.remove(body.activation_id), 409, 'conflict')
  expect(text).toContain(body.expires_at.slice(0, 10))
  expect(await visitor.licence()).toMatchObject({ frees_left: 3, activations_total: 1 })
})

test('a customer makes a licence file from the text of the SDK, within the days that the vendor allows', async () => {
  const own = await givenPage({ offline_days: 30 })
  const licence = await own.issue(own.planId)
  const visitor = await linked(licence)
  using product = own.install({ licenceKey: licence.key })
  const request = product.createOfflineRequest()
  const made = await visitor.offline({ request, days: 30 })
  expectStatus(made, 201)
  const { activation_id, expires_at, file } = made.body
  expect(made.body).toEqual({ activation_id, licence_id: licence.id, expires_at, file })
  expect(Math.abs(Date.parse(expires_at) - Date.now() - 30 * dayMs)).toBeLessThan(120_000)
  expect(await product.activateOffline(file)).toMatchObject({ status: 'licensed', licenceId: licence.id })
  const again = await visitor.offline({ request, days: 1 })
  expectStatus(again, 200)
  expect(again.body.activation_id).toBe(activation_id)

  using keyless = own.install()
  const withoutKey = await visitor.offline({ request: keyless.createOfflineRequest(), days: 1 })
  expectStatus(withoutKey, 201)
  expect(withoutKey.body.licence_id).toBe(licence.id)

  for (const days of [0, 31, -1, 1.5, '7', null])
    expectInvalid(await visitor.offline({ request, days }), '/days')
  const foreign = await own.issue(own.planId)
  using other = own.install({ licenceKey: foreign.key })
  const { fingerprint: _, ...incomplete } = JSON.parse(request) as Record<string, unknown>
  for (const wrong of [
    other.createOfflineRequest(),
    '',
    'x',
    'null',
    '[]',
    '7',
    '{}',
    request.slice(1),
    JSON.stringify(incomplete),
    JSON.stringify({ ...incomplete, fingerprint: 7 }),
    JSON.stringify({ ...incomplete, fingerprint: 'f', licence_key: 'x' }),
    7,
  ])
    expectInvalid(await visitor.offline({ request: wrong, days: 1 }), '/request')
  expect(await visitor.licence()).toMatchObject({ activations_total: 2 })
})

test('licence files are refused as for the vendor, and are 404 if the vendor allows none', async () => {
  const own = await givenPage({ offline_days: 7 })
  const request = () => own.install().createOfflineRequest()
  const full = await linked(await own.issue(own.planId, { restrictions: { max_activations: 1 } }))
  expectStatus(await full.offline({ request: request(), days: 1 }), 201)
  expectProblem(await full.offline({ request: request(), days: 1 }), 409, 'limit_reached')
  const suspended = await own.issue(own.planId)
  await verb('suspend', suspended.id)
  expectRefused(await (await linked(suspended)).offline({ request: request(), days: 1 }), 'suspended')
  const off = await linked(await issue(planId))
  for (const body of [{ request: request(), days: 1 }, { request: 'x', days: 1 }, {}])
    expectNotFound(await off.offline(body))
})

const { atProcessor } = studio.market

async function givenSubscriber() {
  const plan = await studio.sells({ mode: 'subscription', amount: 1_000 })
  const { licence, subscription } = await studio.buy(plan.id)
  return { licence, subscription, visitor: await linked(licence) }
}

/** Presses a button of the processor's page. */
async function press(url: string, action: string, subscription: string) {
  const answer = await fetch(url, {
    method: 'POST',
    body: new URLSearchParams({ action, subscription }),
    redirect: 'manual',
  })
  expect(answer.status).toBe(303)
}

test('the customer cancels on the processor’s page, changes that, and ends the subscription, and the licence follows', async () => {
  const { licence, subscription, visitor } = await givenSubscriber()
  const { renews_on, cancels_on } = (await visitor.licence()).subscription!
  expect(cancels_on).toBeNull()
  expect(renews_on).toMatch(isoTime)
  // The licence itself lasts for a period of grace longer.
  expect(Date.parse(renews_on!)).toBeLessThan(Date.parse(licence.expires_on!))
  const opened = await visitor.manage()
  expectStatus(opened, 201)
  const { url } = opened.body
  expect(opened.body).toEqual({ url })
  expect(await (await fetch(url)).text()).toContain(`href="${gatewayUrl}/customer"`)
  const becomes = (expected: unknown) =>
    eventually(async () => expect((await visitor.licence()).subscription).toEqual(expected))
  await press(url, 'period_end', subscription!)
  await becomes({ renews_on: null, cancels_on: renews_on })
  await press(url, 'undo', subscription!)
  await becomes({ renews_on, cancels_on: null })
  await press(url, 'now', subscription!)
  await becomes(null)
  await studio.becomes(licence.id, 'expired')
  expectProblem(await visitor.manage(), 409, 'conflict')
})

test('a new card on the processor’s page ends a suspension for failed payments', async () => {
  const { licence, subscription, visitor } = await givenSubscriber()
  for (let attempt = 1; attempt <= 3; attempt += 1) await atProcessor('fail-invoice', { subscription })
  await studio.becomes(licence.id, 'suspended')
  const { url } = (await visitor.manage()).body
  await press(url, 'card', subscription!)
  await studio.becomes(licence.id, 'active')
})

test('without a subscription, and if the processor refuses, managing it is 409 with the reason; while it cannot be reached, 503', async () => {
  const once = await studio.buy((await studio.sells()).id)
  for (const licence of [await issue(planId), once.licence]) {
    const visitor = await linked(licence)
    expect(await visitor.licence()).toMatchObject({ subscription: null })
    expect(expectProblem(await visitor.manage(), 409, 'conflict').detail).toContain('no subscription')
  }
  const { visitor } = await givenSubscriber()
  const account = studio.market.connectedAccount
  await atProcessor('settings', { account, billing_portal: false })
  expect(expectProblem(await visitor.manage(), 409, 'conflict').detail).toContain('configuration')
  await atProcessor('settings', { account, billing_portal: true })
  const path = '/v1/billing_portal/sessions'
  await atProcessor('faults', { answer: 'reset', next: 6, path, account })
  expectProblem(await visitor.manage(), 503, 'unavailable')
  await eventually(async () => expectStatus(await visitor.manage(), 201), { timeoutMs: 30_000 })
})
