import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Page } from './vendor.ts'

let stack: Stack

beforeAll(async () => {
  stack = await startStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

test('filters pick by status, plan, customer, host and last call-home, alone and together', async () => {
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

test('a row of a list has the shape that the issue answered', async () => {
  const { api, app, plan, issue } = await givenVendor(stack)
  const licence = await issue((await plan()).id, { restrictions: { max_seats: 3 } })
  const page = await api.get<Page<Licence>>(`${app}/licences`)
  expect(page.body).toEqual({ data: [licence], next_cursor: null })
})

test('a page holds 50 rows by default, and 200 at most', async () => {
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

test('no row that stood throughout is skipped or shown twice while others come and go', async () => {
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

test('the detail tells activations and the latest 50 call-homes, newest first', async () => {
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
