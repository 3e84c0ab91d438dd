import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import { claimsOf, expectInvalid, expectProblem, expectStatus } from './vendor.ts'

const studio = await givenStudio()
const { api, app, detail, patch, issue, history, licences } = studio
const { id: planId } = await studio.plan()

const entries = (count: number, prefix = 'n') =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`${prefix}${String(at).padStart(2, '0')}`, 'v']),
  )
const metadataOf = async (id: string) => (await detail(id)).metadata

test('metadata is in rows, details and the answers of verbs, a PATCH merges it, and the history records both values', async () => {
  const { id, metadata } = await issue(planId, { metadata: { crm: 'A-1', region: 'eu' } })
  expect(metadata).toEqual({ crm: 'A-1', region: 'eu' })
  const changed = { metadata: { crm: 'A-2', new: '' } }
  expect((await patch(id, { metadata: { crm: 'A-2', region: null, new: '' } })).body).toMatchObject(changed)
  expect((await patch(id, { metadata: { crm: 'A-2' } })).body).toMatchObject(changed)
  expect(await history(id)).toMatchObject([
    { type: 'changed', changes: { metadata: { from: metadata, to: changed.metadata } } },
    { type: 'issued' },
  ])
  expect((await licences()).find((row) => row.id === id)).toMatchObject(changed)
  expect(await detail(id)).toMatchObject(changed)
  expect((await studio.verb('suspend', id)).body).toMatchObject(changed)
  expect((await patch(id, { metadata: null })).body.metadata).toEqual({})
  expect((await issue(planId)).metadata).toEqual({})
})

test('plans have metadata too', async () => {
  const made = await studio.plan({ metadata: { sku: 'X' } })
  expect(made).toMatchObject({ metadata: { sku: 'X' }, trial_days: null })
  const path = `${app}/plans/${made.id}`
  const changed = await api.patch(path, { body: { metadata: { sku: null, tier: '2' } } })
  expect(changed.body).toMatchObject({ metadata: { tier: '2' } })
  expectInvalid(await api.patch(path, { body: { metadata: entries(50) } }), '/metadata')
  expect((await api.get(path)).body).toMatchObject({ metadata: { tier: '2' } })
  expect((await api.patch(path, { body: { metadata: null } })).body).toMatchObject({ metadata: {} })
})

test('more than 50 entries in the result are refused, and nothing is applied', async () => {
  const { id, external_ref } = await issue(planId, { metadata: entries(50) })
  expectInvalid(await patch(id, { metadata: { one_more: 'v' }, external_ref: 'x' }), '/metadata')
  expect(await detail(id)).toMatchObject({ metadata: entries(50), external_ref })
  expectStatus(await patch(id, { metadata: { n00: null, one_more: 'v' } }), 200)
  expect(await history(id)).toHaveLength(2)
})

test('concurrent changes keep the entries of all', async () => {
  const { id } = await issue(planId)
  await Promise.all(Object.keys(entries(20)).map((name) => patch(id, { metadata: { [name]: 'v' } })))
  expect(await metadataOf(id)).toEqual(entries(20))
})

test('an item of an import can have metadata, and invalid metadata fails only that item', async () => {
  const common = { external_ref: 'imported', plan_id: planId }
  const item = (metadata: object) => ({ legacy_key: randomUUID(), ...common, metadata })
  const { body } = await api.post<{ items: { result: string; licence_id: string; error: object }[] }>(
    `${app}/licences/import`,
    { body: { items: [{ crm: 'A' }, { 'a b': 'x' }, { a: 'x'.repeat(501) }, entries(51)].map(item) } },
  )
  expect(body.items.map(({ result }) => result)).toEqual(['created', 'failed', 'failed', 'failed'])
  expect(body.items[1]!.error).toMatchObject({ code: 'validation_failed' })
  expect(await metadataOf(body.items[0]!.licence_id)).toEqual({ crm: 'A' })
})

test('a payment merges its metadata, and new names over the limit are left out in order of name', async () => {
  const customer = { external_ref: randomUUID(), plan_id: planId }
  const sold = await studio.sell({ ...customer, metadata: { campaign: 'spring' } })
  const { licence_id: id } = sold.body
  expect(await metadataOf(id)).toEqual({ campaign: 'spring' })
  await patch(id, { metadata: { campaign: null, ...entries(49, 'own') } })
  await studio.sell({ ...customer, metadata: { own00: 'w', b: '2', a: '1', c: '3' } })
  expect(await metadataOf(id)).toEqual({ ...entries(49, 'own'), own00: 'w', a: '1' })
  const { licence } = await studio.buy((await studio.sells()).id, undefined, { metadata: { cart: '7' } })
  expect(licence.metadata).toEqual({ cart: '7' })
})

test('metadata is never in events, tokens or answers to products', async () => {
  const secret = `secret-${randomUUID()}`
  const trialPlan = await studio.plan({ metadata: { secret }, trial_days: 3 })
  const licence = await issue(planId, { metadata: { secret } })
  const activated = await studio.activate(licence)
  for (const { status, body } of [
    activated,
    await studio.refresh(activated.body),
    await studio.tryOut(trialPlan.code),
  ]) {
    expect([200, 201]).toContain(status)
    expect(JSON.stringify([body, claimsOf(body.token)])).not.toContain(secret)
  }
  await studio.verb('suspend', licence.id)
  await studio.settled()
  expect(JSON.stringify(studio.events())).not.toContain(secret)
})

test('licences are filtered by at most three exact pairs, with the other filters', async () => {
  const mark = randomUUID()
  const first = await issue(planId, { metadata: { mark, a: '1', b: '2' } })
  const second = await issue(planId, { metadata: { mark, a: '1', b: '3' } })
  await studio.verb('suspend', second.id)
  for (const [query, ids] of [
    [`metadata[mark]=${mark}`, [second.id, first.id]],
    [`metadata[mark]=${mark}&metadata[a]=1&metadata[b]=2`, [first.id]],
    [`metadata[mark]=${mark}&status=suspended`, [second.id]],
    [`metadata[mark]=${mark.slice(1)}`, []],
    [`metadata[mark]=${mark}&metadata[a]=`, []],
  ] as const) {
    expect((await licences(`?${query}`)).map(({ id }) => id)).toEqual(ids)
  }
  const four = 'metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1'
  for (const query of ['metadata[a]=1&metadata[a]=2', 'metadata[a%20]=1', 'metadata=1', four]) {
    expectProblem(await api.get(`${app}/licences?${query}`), 422, 'validation_failed')
  }
})

test('the name of an entry may be __proto__', async () => {
  const { id } = await issue(planId)
  await patch(id, '{"metadata":{"__proto__":"x","constructor":"y"}}')
  expect(new Map(Object.entries(await metadataOf(id)))).toEqual(
    new Map([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]),
  )
})
