import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectStatus, givenStudio } from './section-14.ts'
import type { FullLicence, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { allRows, expectInvalid, expectProblem } from './vendor.ts'

let market: Market
let studio: Studio
let planId: string
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  planId = (await studio.plan()).id
})
afterAll(() => market[Symbol.asyncDispose]())

const entries = (count: number, prefix = 'n') =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`${prefix}${String(at).padStart(2, '0')}`, 'v']),
  )

test('metadata is in rows, details and the answers of verbs, and a PATCH merges it', async () => {
  const { api, app, detail, patch, issue } = studio
  const licence = await issue(planId, { metadata: { crm: 'A-1', region: 'eu' } })
  expect(licence.metadata).toEqual({ crm: 'A-1', region: 'eu' })
  expect(
    (await patch(licence.id, { metadata: { crm: 'A-2', region: null, new: '' } })).body.metadata,
  ).toEqual({
    crm: 'A-2',
    new: '',
  })
  const row = (await allRows<FullLicence>(api, `${app}/licences`)).find(({ id }) => id === licence.id)
  expect(row).toMatchObject({ metadata: { crm: 'A-2', new: '' }, trial: false, updates_until: null })
  expect((await detail(licence.id)).metadata).toEqual({ crm: 'A-2', new: '' })
  expect((await studio.verb('suspend', licence.id)).body).toMatchObject({ metadata: { crm: 'A-2', new: '' } })
  expect((await patch(licence.id, { metadata: {} })).body.metadata).toEqual({ crm: 'A-2', new: '' })
  expect((await patch(licence.id, { metadata: null })).body.metadata).toEqual({})
  expect((await issue(planId)).metadata).toEqual({})
})

test('plans have metadata too', async () => {
  const { api, app, plan } = studio
  const made = await plan({ metadata: { sku: 'X' } })
  expect(made).toMatchObject({ metadata: { sku: 'X' }, trial_days: null })
  const path = `${app}/plans/${made.id}`
  const changed = await api.patch(path, { body: { metadata: { sku: null, tier: '2' } } })
  expect(changed.body).toMatchObject({ metadata: { tier: '2' } })
  expectInvalid(await api.patch(path, { body: { metadata: entries(50) } }), '/metadata')
  expect((await api.get(path)).body).toMatchObject({ metadata: { tier: '2' } })
  expect((await api.patch(path, { body: { metadata: null } })).body).toMatchObject({ metadata: {} })
})

test('more than 50 entries in the result are refused, and nothing is applied', async () => {
  const { detail, patch, issue, history } = studio
  const licence = await issue(planId, { metadata: entries(50) })
  expectInvalid(await patch(licence.id, { metadata: { one_more: 'v' }, external_ref: 'x' }), '/metadata')
  expect(await detail(licence.id)).toMatchObject({
    metadata: entries(50),
    external_ref: licence.external_ref,
  })
  expectStatus(await patch(licence.id, { metadata: { n00: null, one_more: 'v' } }), 200)
  expect(await history(licence.id)).toHaveLength(2)
})

test('two concurrent changes keep the entries of both', async () => {
  const { detail, patch, issue } = studio
  const licence = await issue(planId)
  await Promise.all(Object.keys(entries(20)).map((name) => patch(licence.id, { metadata: { [name]: 'v' } })))
  expect((await detail(licence.id)).metadata).toEqual(entries(20))
})

test('an item of an import can have metadata, and invalid metadata fails only that item', async () => {
  const { api, app, detail } = studio
  const item = (legacyKey: string, more: object) => ({
    legacy_key: legacyKey,
    external_ref: 'imported',
    plan_id: planId,
    ...more,
  })
  const { body } = await api.post<{
    items: { result: string; licence_id: string; error: { code: string } }[]
  }>(`${app}/licences/import`, {
    body: {
      items: [
        item(randomUUID(), { metadata: { crm: 'A' }, updates_until: '2030-01-01T00:00:00Z' }),
        item(randomUUID(), { metadata: { 'a b': 'x' } }),
        item(randomUUID(), { metadata: { a: 'x'.repeat(501) } }),
        item(randomUUID(), { metadata: entries(51) }),
      ],
    },
  })
  expect(body.items.map(({ result }) => result)).toEqual(['created', 'failed', 'failed', 'failed'])
  expect(body.items[1]!.error.code).toBe('validation_failed')
  expect(await detail(body.items[0]!.licence_id)).toMatchObject({
    metadata: { crm: 'A' },
    updates_until: '2030-01-01T00:00:00.000Z',
  })
})

test('a payment merges its metadata, and new names over the limit are left out in order of name', async () => {
  const { api, app, sell, detail, patch, sells, reaches, licencesOf } = studio
  const customer = randomUUID()
  const sold = await sell({ external_ref: customer, plan_id: planId, metadata: { campaign: 'spring' } })
  expectStatus(sold, 201)
  const { licence_id: id } = sold.body
  expect((await detail(id)).metadata).toEqual({ campaign: 'spring' })
  await patch(id, { metadata: { campaign: null, ...entries(49, 'own') } })
  await sell({ external_ref: customer, plan_id: planId, metadata: { own00: 'w', b: '2', a: '1', c: '3' } })
  expect((await detail(id)).metadata).toEqual({ ...entries(49, 'own'), own00: 'w', a: '1' })

  const plan = await sells()
  const buyer = randomUUID()
  const opened = await api.post<{ id: string; url: string }>(`${app}/checkout-sessions`, {
    body: {
      plan_id: plan.id,
      external_ref: buyer,
      success_url: 'https://shop.example.com/',
      cancel_url: 'https://shop.example.com/',
      metadata: { cart: '7' },
    },
  })
  expectStatus(opened, 201)
  await market.atProcessor('pay', { session: new URL(opened.body.url).pathname.split('/').at(-1) })
  await reaches(opened.body.id, 'provisioned')
  const [licence] = (await licencesOf(buyer)) as FullLicence[]
  expect(licence!.metadata).toEqual({ cart: '7' })
})

test('metadata is never in events, tokens or answers to products', async () => {
  const { issue, activate, refresh, events, settled, tryOut, plan } = studio
  const secret = `secret-${randomUUID()}`
  const trialPlan = await plan({ metadata: { secret }, trial_days: 3 })
  const licence = await issue(planId, { metadata: { secret } })
  const activated = await activate(licence)
  const answers = [activated, await refresh(activated), await tryOut(trialPlan.code)]
  for (const answer of answers) {
    expect([200, 201]).toContain(answer.status)
    expect(JSON.stringify(answer.body)).not.toContain(secret)
    expect(Buffer.from(answer.body.token.split('.')[1]!, 'base64url').toString()).not.toContain(secret)
  }
  await studio.verb('suspend', licence.id)
  await settled()
  expect(JSON.stringify(events())).not.toContain(secret)
})

test('licences are filtered by at most three exact pairs, with the other filters', async () => {
  const { api, app, issue } = studio
  const mark = randomUUID()
  const first = await issue(planId, { metadata: { mark, a: '1', b: '2' } })
  const second = await issue(planId, { metadata: { mark, a: '1', b: '3' } })
  await studio.verb('suspend', second.id)
  const found = async (query: string) =>
    (await allRows<FullLicence>(api, `${app}/licences?${query}`)).map(({ id }) => id)
  expect(await found(`metadata[mark]=${mark}`)).toEqual([second.id, first.id])
  expect(await found(`metadata[mark]=${mark}&metadata[a]=1&metadata[b]=2`)).toEqual([first.id])
  expect(await found(`metadata[mark]=${mark}&status=suspended`)).toEqual([second.id])
  expect(await found(`metadata[mark]=${mark.slice(1)}`)).toEqual([])
  expect(await found(`metadata[mark]=${mark}&metadata[a]=`)).toEqual([])
  for (const query of ['metadata[a]=1&metadata[a]=2', 'metadata[a%20]=1', 'metadata=1']) {
    expectProblem(await api.get(`${app}/licences?${query}`), 422, 'validation_failed')
  }
})

test('the history records old and new values of changed metadata', async () => {
  const { issue, patch, history } = studio
  const licence = await issue(planId, { metadata: { a: '1' } })
  await patch(licence.id, { metadata: { a: '1' } })
  await patch(licence.id, { metadata: { a: null, b: '2' } })
  expect(await history(licence.id)).toMatchObject([
    { type: 'changed', changes: { metadata: { from: { a: '1' }, to: { b: '2' } } } },
    { type: 'issued' },
  ])
})

test('the name of an entry may be __proto__', async () => {
  const { api, issue, detail } = studio
  const licence = await issue(planId)
  await api.patch(`/v1/licences/${licence.id}`, { body: '{"metadata":{"__proto__":"x","constructor":"y"}}' })
  const { metadata } = await detail(licence.id)
  expect(new Map(Object.entries(metadata))).toEqual(
    new Map([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]),
  )
})
