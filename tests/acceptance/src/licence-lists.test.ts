import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Page } from './vendor.ts'

let stack: Stack

beforeAll(async () => {
  stack = await sharedStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

test('licences can be filtered by status, plan, customer, host and last call-home, alone and combined', async () => {
  const { api, app, plan, issue, verb, activate } = await givenVendor(stack)
  const [gold, silver] = [await plan(), await plan()]
  const byDomain = await issue(gold.id, {
    external_ref: 'ann',
    restrictions: { domains: ['shop.example.com'] },
  })
  const byWildcard = await issue(gold.id, {
    external_ref: 'ann',
    restrictions: { domains: ['*.example.com'] },
  })
  const seen = await issue(silver.id, { external_ref: 'bob' })
  const suspended = await issue(silver.id, { external_ref: 'ann' })
  await verb('suspend', suspended.id)
  const before = new Date(Date.now() - 1_000).toISOString()
  expect((await activate(seen, { host: 'Shop.Example.com' })).status).toBe(201)

  const ids = async (query: string) =>
    (await allRows<Licence>(api, `${app}/licences?${query}`, 1)).map(({ id }) => id)
  expect(await ids('')).toEqual([suspended.id, seen.id, byWildcard.id, byDomain.id])
  expect(await ids('status=active')).toEqual([seen.id, byWildcard.id, byDomain.id])
  expect(await ids('status=suspended')).toEqual([suspended.id])
  expect(await ids('status=revoked')).toEqual([])
  expect(await ids(`plan=${gold.id}`)).toEqual([byWildcard.id, byDomain.id])
  for (const unknown of ['pln_01k9zj3v8qe5ktw2m4x6r7n8ab', 'nonsense'])
    expect(await ids(`plan=${unknown}`)).toEqual([])
  expect(await ids('external_ref=ann')).toEqual([suspended.id, byWildcard.id, byDomain.id])
  expect(await ids('domain=SHOP.example.com')).toEqual([seen.id, byDomain.id])
  expect(await ids('domain=*.example.com')).toEqual([byWildcard.id])
  expect(await ids('domain=example.com')).toEqual([])
  expect(await ids(`last_seen=${before}`)).toEqual([seen.id])
  expect(await ids(`last_seen=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([])
  expect(await ids('last_seen=never')).toEqual([suspended.id, byWildcard.id, byDomain.id])
  expect(
    await ids(`last_seen=never&status=active&plan=${gold.id}&external_ref=ann&domain=shop.example.com`),
  ).toEqual([byDomain.id])
  expect(await ids(`status=active&domain=shop.example.com&last_seen=${before}`)).toEqual([seen.id])

  expectInvalid(await api.get(`${app}/licences?status=gone`), '/status')
  for (const value of ['yesterday', '', '2026-13-01T00:00:00Z']) {
    expectInvalid(await api.get(`${app}/licences?last_seen=${value}`), '/last_seen')
  }
  expectProblem(await api.get(`${app}/licences?cursor=abc`), 400, 'bad_request')
})

test('a row of a list has the same fields as the answer of the issue', async () => {
  const { api, app, plan, issue } = await givenVendor(stack)
  const licence = await issue((await plan()).id, { restrictions: { max_seats: 3 } })
  const page = await api.get<Page<Licence>>(`${app}/licences`)
  expect(page.body).toEqual({ data: [licence], next_cursor: null })
})

test('a page has 50 rows by default, and at most 200', async () => {
  const { api, app, plan } = await givenVendor(stack)
  const { id } = await plan()
  const items = Array.from({ length: 230 }, (_, n) => ({
    legacy_key: `k${n}`,
    external_ref: 'c',
    plan_id: id,
  }))
  expect((await api.post(`${app}/licences/import`, { body: { items } })).status).toBe(200)
  const rows = async (query: string) => (await api.get<Page<Licence>>(`${app}/licences${query}`)).body
  expect((await rows('')).data).toHaveLength(50)
  expect((await rows('?limit=200')).data).toHaveLength(200)
  const whole = await rows('?limit=115')
  const rest = await rows(`?limit=115&cursor=${whole.next_cursor}`)
  expect(rest.data).toHaveLength(115)
  expect(rest.next_cursor).toBeNull()
  for (const limit of ['0', '201', 'x'])
    expectInvalid(await api.get(`${app}/licences?limit=${limit}`), '/limit')
})

test('while other rows are added and removed, no unchanged row is skipped or shown twice', async () => {
  const { api, app, plan, issue, verb } = await givenVendor(stack)
  const { id } = await plan()
  const standing = []
  for (let count = 0; count < 30; count++) standing.push(await issue(id))
  const leaving = standing.filter((_, index) => index % 5 === 0)
  const seen: string[] = []
  let cursor: string | null = null
  let turn = 0
  do {
    const page: Page<Licence> = (
      await api.get<Page<Licence>>(
        `${app}/licences?status=active&limit=4${cursor === null ? '' : `&cursor=${cursor}`}`,
      )
    ).body
    seen.push(...page.data.map((row) => row.id))
    cursor = page.next_cursor
    await issue(id)
    const gone = leaving[turn++]
    if (gone) await verb('suspend', gone.id)
  } while (cursor !== null)
  expect(new Set(seen).size).toBe(seen.length)
  const stayed = standing.filter((licence) => !leaving.includes(licence)).map((licence) => licence.id)
  expect(stayed.filter((each) => !seen.includes(each))).toEqual([])
})

test('the detail has activations and the latest 50 call-homes, newest first', async () => {
  const { api, plan, issue, activate } = await givenVendor(stack)
  const licence = await issue((await plan()).id)
  const { body: grant } = await activate(licence, {
    fingerprint: 'f-1',
    host: 'One.example.com',
    product_version: '1.0',
  })
  const token = { key: grant.token }
  for (let version = 1; version <= 54; version++) {
    const called = await api.post(`/v1/activations/${grant.activation_id}/call-home`, {
      ...token,
      body: { product_version: `2.${version}`, host: 'two.example.com' },
    })
    expect(called.status).toBe(204)
  }
  const { body } = await api.get<{
    activations: Record<string, string>[]
    call_home: { host: string; product_version: string; seen_at: string }[]
  }>(`/v1/licences/${licence.id}`)
  expect(body.activations).toEqual([
    {
      id: grant.activation_id,
      fingerprint: 'f-1',
      host: expect.any(String),
      product_version: expect.any(String),
      created_at: expect.stringMatching(isoTime),
      last_seen_at: expect.stringMatching(isoTime),
      lease_ends_at: null,
    },
  ])
  expect(body.call_home).toHaveLength(50)
  expect(body.call_home.map(({ product_version: version }) => version)).toEqual(
    Array.from({ length: 50 }, (_, index) => `2.${54 - index}`),
  )
  expect(body.call_home[0]).toEqual({
    host: 'two.example.com',
    product_version: '2.54',
    seen_at: expect.stringMatching(isoTime),
  })
})

interface Detail extends Licence {
  activations: { id: string; fingerprint: string }[]
  activations_total: number
  allowed: string[]
  plan_drift: object[]
}

interface HistoryEntry {
  type: string
  from: string | null
  to: string
  actor: string
  cause: string | null
  changes: object | null
}

test('the vendor lists a licence’s activations, newest first, and frees the activation of a lost machine', async () => {
  const { api, plan, issue, activate } = await givenVendor(stack)
  const licence = await issue((await plan()).id, { restrictions: { max_activations: 2 } })
  const first = (await activate(licence, { fingerprint: 'one' })).body
  const second = (await activate(licence, { fingerprint: 'two' })).body
  const path = `/v1/licences/${licence.id}/activations`
  const ids = async () => (await allRows<{ id: string }>(api, path, 1)).map(({ id }) => id)
  expect(await ids()).toEqual([second.activation_id, first.activation_id])
  const { body: detail } = await api.get<Detail>(`/v1/licences/${licence.id}`)
  expect((await api.get<Page<object>>(path)).body.data).toEqual(detail.activations)
  expect(detail.activations_total).toBe(2)
  expectProblem(await activate(licence), 409, 'limit_reached')

  const freed = await api.delete(`${path}/${first.activation_id}`)
  expect(freed.status).toBe(204)
  expectProblem(
    await api.post(`/v1/activations/${first.activation_id}/refresh`, {
      key: first.token,
      body: { product_version: '1.0', host: 'a.example.com' },
    }),
    404,
    'not_found',
  )
  expect(await ids()).toEqual([second.activation_id])
  expect((await activate(licence)).status).toBe(201)
  expect((await api.delete(`/v1/activations/${second.activation_id}`, { key: second.token })).status).toBe(
    204,
  )

  const other = await issue((await plan()).id)
  for (const gone of [
    `${path}/${first.activation_id}`,
    `${path}/act_01k9zj3v8qe5ktw2m4x6r7n8ab`,
    `${path}/nonsense`,
    `/v1/licences/${other.id}/activations/${second.activation_id}`,
    `/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab/activations/${second.activation_id}`,
  ]) {
    expectProblem(await api.delete(gone), 404, 'not_found')
  }
  expectProblem(await api.get('/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab/activations'), 404, 'not_found')

  const history = await allRows<HistoryEntry>(api, `/v1/licences/${licence.id}/history`)
  const entry = { type: 'activation_freed', from: 'active', to: 'active', changes: null }
  expect(history.slice(0, 2)).toMatchObject([
    { ...entry, actor: 'product', cause: second.activation_id },
    { ...entry, actor: expect.stringMatching(/^key_/), cause: first.activation_id },
  ])
})

test('the detail lists the possible verbs, and the entitlements that differ from the plan’s current values', async () => {
  const { api, app, define, plan, issue, verb } = await givenVendor(stack)
  await define('seats', 'limit', '3')
  await define('sso', 'feature')
  const { id } = await plan({ entitlements: [{ key: 'seats', value: '5' }] })
  const licence = await issue(id)
  const detail = async () => (await api.get<Detail>(`/v1/licences/${licence.id}`)).body
  expect(await detail()).toMatchObject({ allowed: ['suspend', 'revoke', 'retire'], plan_drift: [] })

  await api.patch(`${app}/plans/${id}`, { body: { entitlements: [] } })
  await define('audit', 'feature')
  const sso = (await allRows<{ id: string; key: string }>(api, `${app}/entitlement-defs`)).find(
    ({ key }) => key === 'sso',
  )!
  expect((await api.delete(`${app}/entitlement-defs/${sso.id}`)).status).toBe(204)
  expect((await detail()).plan_drift).toEqual([
    { key: 'audit', kind: 'feature', licence_value: null, plan_value: 'false' },
    { key: 'seats', kind: 'limit', licence_value: '5', plan_value: '3' },
    { key: 'sso', kind: 'feature', licence_value: 'false', plan_value: null },
  ])

  await verb('suspend', licence.id)
  expect((await detail()).allowed).toEqual(['reactivate', 'revoke', 'retire'])
  await api.post(`${app}/plans/${id}/archive`)
  expect((await detail()).allowed).toEqual(['revoke', 'retire'])
  expect((await verb('reactivate', licence.id)).body.allowed).toEqual(['revoke', 'retire'])
  await verb('retire', licence.id)
  expect((await detail()).allowed).toEqual([])
})
