import { expect, test } from 'vitest'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenStack,
  givenVendor,
  inMs,
  unknownId,
} from './vendor.ts'
import type { Licence, Page } from './vendor.ts'

const stack = await givenStack()

test('licences can be filtered by status, plan, customer, host and last call-home, alone and combined', async () => {
  const { api, app, plan, issue, verb, activate } = await givenVendor(stack)
  const [gold, silver] = [await plan(), await plan()]
  const withDomain = (domain: string) => ({ external_ref: 'ann', restrictions: { domains: [domain] } })
  const byDomain = (await issue(gold.id, withDomain('shop.example.com'))).id
  const byWildcard = (await issue(gold.id, withDomain('*.example.com'))).id
  const seen = await issue(silver.id, { external_ref: 'bob' })
  const suspended = (await issue(silver.id, { external_ref: 'ann' })).id
  await verb('suspend', suspended)
  const before = inMs(-1_000)
  expectStatus(await activate(seen, { host: 'Shop.Example.com' }), 201)
  for (const [query, ids] of [
    ['', [suspended, seen.id, byWildcard, byDomain]],
    ['status=active', [seen.id, byWildcard, byDomain]],
    ['status=suspended', [suspended]],
    ['status=revoked', []],
    [`plan=${gold.id}`, [byWildcard, byDomain]],
    [`plan=${unknownId('pln')}`, []],
    ['plan=nonsense', []],
    ['external_ref=ann', [suspended, byWildcard, byDomain]],
    ['domain=SHOP.example.com', [seen.id, byDomain]],
    ['domain=*.example.com', [byWildcard]],
    ['domain=example.com', []],
    [`last_seen=${before}`, [seen.id]],
    [`last_seen=${inMs(60_000)}`, []],
    ['last_seen=never', [suspended, byWildcard, byDomain]],
    [`last_seen=never&status=active&plan=${gold.id}&external_ref=ann&domain=shop.example.com`, [byDomain]],
    [`status=active&domain=shop.example.com&last_seen=${before}`, [seen.id]],
  ] as const) {
    const rows = await allRows<Licence>(api, `${app}/licences?${query}`, 1)
    expect(
      rows.map(({ id }) => id),
      query,
    ).toEqual(ids)
  }
  expectInvalid(await api.get(`${app}/licences?status=gone`), '/status')
  for (const value of ['yesterday', '', '2026-13-01T00:00:00Z']) {
    expectInvalid(await api.get(`${app}/licences?last_seen=${value}`), '/last_seen')
  }
})

test('a page has 50 rows by default, and at most 200', async () => {
  const { api, app, plan } = await givenVendor(stack)
  const common = { external_ref: 'c', plan_id: (await plan()).id }
  const items = Array.from({ length: 230 }, (_, n) => ({ legacy_key: `k${n}`, ...common }))
  expectStatus(await api.post(`${app}/licences/import`, { body: { items } }), 200)
  const rows = async (query: string) => (await api.get<Page<Licence>>(`${app}/licences${query}`)).body
  expect((await rows('')).data).toHaveLength(50)
  expect((await rows('?limit=200')).data).toHaveLength(200)
  const half = await rows('?limit=115')
  const rest = await rows(`?limit=115&cursor=${half.next_cursor}`)
  expect([rest.data.length, rest.next_cursor]).toEqual([115, null])
})

test('while other rows are added and removed, no unchanged row is skipped or shown twice', async () => {
  const { api, app, plan, issue, verb } = await givenVendor(stack)
  const { id } = await plan()
  const standing: string[] = []
  for (let count = 0; count < 30; count++) standing.push((await issue(id)).id)
  const leaving = standing.filter((_, index) => index % 5 === 0)
  const stayed = standing.filter((each) => !leaving.includes(each))
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const query: string = `status=active&limit=4${cursor === null ? '' : `&cursor=${cursor}`}`
    const page = await api.get<Page<Licence>>(`${app}/licences?${query}`)
    seen.push(...page.body.data.map((row) => row.id))
    cursor = page.body.next_cursor
    await issue(id)
    const gone = leaving.shift()
    if (gone) await verb('suspend', gone)
  } while (cursor !== null)
  expect(new Set(seen).size).toBe(seen.length)
  expect(stayed.filter((each) => !seen.includes(each))).toEqual([])
})

test('the vendor lists a licence’s activations, newest first, and frees the activation of a lost machine', async () => {
  const { api, plan, issue, activate, refresh, deactivate, detail, history } = await givenVendor(stack)
  const { id: planId } = await plan()
  const licence = await issue(planId, { restrictions: { max_activations: 2 } })
  const first = (await activate(licence, { fingerprint: 'one' })).body
  const second = (await activate(licence, { fingerprint: 'two' })).body
  const path = `/v1/licences/${licence.id}/activations`
  const listed = () => allRows(api, path, 1)
  const { activations, activations_total: total } = await detail(licence.id)
  expect(await listed()).toEqual(activations)
  expect(activations).toMatchObject([{ id: second.activation_id }, { id: first.activation_id }])
  expect(total).toBe(2)
  expectProblem(await activate(licence), 409, 'limit_reached')

  expectStatus(await api.delete(`${path}/${first.activation_id}`), 204)
  expectNotFound(await refresh(first))
  expect(await listed()).toMatchObject([{ id: second.activation_id }])
  expectStatus(await activate(licence), 201)
  expectStatus(await deactivate(second), 204)
  const other = await issue(planId)
  const left = (await activate(other)).body.activation_id
  for (const gone of [
    `${path}/${first.activation_id}`,
    `${path}/nonsense`,
    `${path}/${left}`,
    `/v1/licences/${unknownId('lic')}/activations/${left}`,
  ]) {
    expectNotFound(await api.delete(gone))
  }
  const entry = { type: 'activation_freed', from: 'active', to: 'active', changes: null }
  const actor = expect.stringMatching(/^key_/) as string
  expect((await history(licence.id)).slice(0, 2)).toMatchObject([
    { ...entry, actor: 'product', cause: second.activation_id },
    { ...entry, actor, cause: first.activation_id },
  ])
})

test('the detail lists the possible verbs, and the entitlements that differ from the plan’s current values', async () => {
  const { api, app, define, plan, issue, verb, detail } = await givenVendor(stack)
  await define('seats', 'limit', '3')
  const sso = await define('sso', 'feature')
  const { id: planId } = await plan({ entitlements: [{ key: 'seats', value: '5' }] })
  const { id } = await issue(planId)
  const allowed = async () => (await detail(id)).allowed
  expect(await detail(id)).toMatchObject({ allowed: ['suspend', 'revoke', 'retire'], plan_drift: [] })

  await api.patch(`${app}/plans/${planId}`, { body: { entitlements: [] } })
  await define('audit', 'feature')
  expectStatus(await api.delete(`${app}/entitlement-defs/${sso.id}`), 204)
  expect((await detail(id)).plan_drift).toEqual([
    { key: 'audit', kind: 'feature', licence_value: null, plan_value: 'false' },
    { key: 'seats', kind: 'limit', licence_value: '5', plan_value: '3' },
    { key: 'sso', kind: 'feature', licence_value: 'false', plan_value: null },
  ])

  await verb('suspend', id)
  expect(await allowed()).toEqual(['reactivate', 'revoke', 'retire'])
  await api.post(`${app}/plans/${planId}/archive`)
  expect(await allowed()).toEqual(['revoke', 'retire'])
  expect((await verb('reactivate', id)).body.allowed).toEqual(['revoke', 'retire'])
  await verb('retire', id)
  expect(await allowed()).toEqual([])
})
