import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenCustomers } from './section-15.ts'
import type { Link } from './section-15.ts'
import {
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'

const {
  studio,
  planId,
  api,
  app,
  issue,
  verb,
  sessionsOf,
  link,
  customer,
  linked,
  setPage,
  givenPage,
  activated,
} = await givenCustomers()
const { gatewayUrl } = studio.market.stack

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
