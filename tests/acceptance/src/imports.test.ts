import { expect, test } from 'vitest'
import { expectInvalid, expectNotFound, expectStatus, givenStack, givenVendor, unknownId } from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
const { api, app, verb, detail, history, licences } = vendor
const { id: planId } = await vendor.plan()

interface Imported {
  items: {
    legacy_key: string
    result: string
    licence_id: string | null
    error: { code: string; detail: string } | null
  }[]
  summary: { created: number; existing: number; failed: number }
}

const bring = (items: unknown, more: object = {}) =>
  api.post<Imported>(`${app}/licences/import`, { body: { items, ...more } })
const item = (legacyKey: string, fields: object = {}) => ({
  legacy_key: legacyKey,
  external_ref: 'c',
  plan_id: planId,
  ...fields,
})

test('items are created once, and found again on every later run', async () => {
  const items = [item('old-1'), item('old-2'), item('old-1')]
  const first = await bring(items)
  expect(first).toMatchObject({ status: 200, body: { summary: { created: 2, existing: 1, failed: 0 } } })
  const [one, two] = first.body.items.map(({ licence_id: id }) => id)
  expect(first.body.items).toEqual([
    { legacy_key: 'old-1', result: 'created', licence_id: one, error: null },
    { legacy_key: 'old-2', result: 'created', licence_id: two, error: null },
    { legacy_key: 'old-1', result: 'existing', licence_id: one, error: null },
  ])
  const again = await bring(items)
  expect(again.body.summary).toEqual({ created: 0, existing: 3, failed: 0 })
  expect(again.body.items.map(({ licence_id: id }) => id)).toEqual([one, two, one])
  const imported = { status: 'active', legacy_key: 'old-1', plan_id: planId, external_ref: 'c' }
  expect(await detail(one!)).toMatchObject(imported)
  expect((await history(one!)).map(({ type }) => type)).toEqual(['imported'])
})

test('an invalid item does not affect others, and an existing one is found even if its other fields are invalid', async () => {
  const retired = await vendor.plan()
  await api.post(`${app}/plans/${retired.id}/archive`)
  await bring([item('here')])
  const rows = [
    ['not_found', item('a', { plan_id: unknownId('pln') })],
    ['not_found', item('b', { plan_id: 'gold' })],
    ['plan_archived', item('c', { plan_id: retired.id })],
    ['validation_failed', item('')],
    ['validation_failed', item('d', { external_ref: '' })],
    ['existing', item('here', { plan_id: 'gold', external_ref: '' })],
    ['created', item('c')],
  ] as const
  const { body } = await bring(rows.map(([, each]) => each))
  expect(body.items.map(({ result, error }) => error?.code ?? result)).toEqual(rows.map(([result]) => result))
  expect(body.summary).toEqual({ created: 1, existing: 1, failed: 5 })
  for (const { licence_id, error } of body.items.filter(({ result }) => result === 'failed')) {
    expect([licence_id, error?.detail]).toEqual([null, expect.any(String)])
  }
})

test('an item can have an end, restrictions, the end of updates and metadata; a wrong value fails its item alone', async () => {
  const values = {
    expires_on: '2099-01-31T01:00:00+01:00',
    updates_until: '2001-01-01T00:00:00Z',
    restrictions: {
      domains: ['App.Example.com'],
      max_activations: 3,
      max_seats: 4,
      max_concurrent: 2,
      lease_minutes: 30,
    },
    metadata: { crm: 'A-17' },
  }
  const wrong = [
    ['expires_on', { expires_on: '2020-01-01T00:00:00Z' }],
    ['expires_on', { expires_on: '2099-01-31' }],
    ['restrictions/max_activations', { restrictions: { max_activations: 0 } }],
    ['restrictions/max_seats', { restrictions: { max_seats: 1.5 } }],
    ['restrictions/max_concurrent', { restrictions: { max_concurrent: 1e300 } }],
    ['restrictions/lease_minutes', { restrictions: { lease_minutes: 5 } }],
    ['restrictions/domains/1', { restrictions: { domains: ['a.example', '10.0.0.1'] } }],
    ['metadata/a b', { metadata: { 'a b': '1' } }],
  ] as const
  const items = [
    item('valued', values),
    ...wrong.map(([, fields], at) => item(`wrong-${at}`, { ...values, ...fields })),
    item('plain', { expires_on: null, updates_until: null, restrictions: null, metadata: null }),
    item('empty', { restrictions: { domains: [], max_activations: null } }),
  ]
  for (const dry_run of [true, false]) {
    const { body } = await bring(items, { dry_run })
    expect(body.summary).toEqual({ created: 3, existing: 0, failed: wrong.length })
    for (const [at, [named]] of wrong.entries()) {
      const { result, error } = body.items[at + 1]!
      expect([result, error?.code], named).toEqual(['failed', 'validation_failed'])
      expect(error?.detail).toMatch(new RegExp(`^${named} must|^${named} needs|^${named} the name`))
    }
    if (dry_run) continue
    const [valued, plain, empty] = [0, -2, -1].map((at) => body.items.at(at)!.licence_id!)
    expect(await detail(valued!)).toMatchObject({
      ...values,
      expires_on: '2099-01-31T00:00:00.000Z',
      updates_until: '2001-01-01T00:00:00.000Z',
      restrictions: { ...values.restrictions, domains: ['app.example.com'] },
    })
    const none = { expires_on: null, updates_until: null, restrictions: null, metadata: {} }
    for (const id of [plain!, empty!]) expect(await detail(id)).toMatchObject(none)
    expect(await licences('?domain=app.example.com')).toMatchObject([{ id: valued }])
  }
  // A licence that was imported before is found, also if the item is invalid.
  const again = await bring(wrong.map(([, fields]) => item('valued', fields)))
  expect(again.body.summary).toEqual({ created: 0, existing: wrong.length, failed: 0 })
})

test('a body that does not match the schema fails as a whole', async () => {
  expectInvalid(await bring([]), '/items')
  expectInvalid(await bring(undefined), '/items')
  expectInvalid(await bring(Array.from({ length: 501 }, (_, n) => item(`n${n}`))), '/items')
  expectInvalid(await bring([item('g'), { legacy_key: 'h', plan_id: planId }]), '/items/1/external_ref')
  expectInvalid(await bring([item('g', { colour: 'red' })]), '/items/0/colour')
  expectInvalid(await bring([item('g', { plan_id: 4 })]), '/items/0/plan_id')
  expectInvalid(await bring([item('g', { expires_on: 7 })]), '/items/0/expires_on')
  expectInvalid(await bring([item('g', { restrictions: [] })]), '/items/0/restrictions')
  const unstorable = item('g', { restrictions: { domains: ['a\0'] } })
  expectInvalid(await bring([unstorable]), '/items/0/restrictions/domains/0')
  expectInvalid(await bring([item('g', { restrictions: { seats: 1 } })]), '/items/0/restrictions/seats')
  const texts = { max_activations: '3', domains: 'example.com' }
  const pointers = Object.keys(texts).map((name) => `/items/1/restrictions/${name}`)
  expectInvalid(await bring([item('h'), item('g', { restrictions: texts })]), ...pointers)
  expectInvalid(await bring([item('g')], { dry_run: 'yes' }), '/dry_run')
  const again = await bring([item('g')], { dry_run: null })
  expect(again.body.items[0]?.result).toBe('created')
})

test('a dry run answers the same and writes nothing', async () => {
  const items = [item('dry-1'), item('old-dry'), item('dry-2', { plan_id: 'gold' }), item('dry-1')]
  await bring([item('old-dry')])
  const dry = await bring(items, { dry_run: true })
  expect(dry.body.summary).toEqual({ created: 1, existing: 2, failed: 1 })
  expect(dry.body.items[0]).toMatchObject({ result: 'created', licence_id: null })
  expect(dry.body.items[1]?.licence_id).toMatch(/^lic_/)
  const real = await bring(items)
  expect(real.body.items.map(({ result }) => result)).toEqual(dry.body.items.map(({ result }) => result))
})

test('several concurrent imports of the same five hundred items create five hundred licences', async () => {
  const items = Array.from({ length: 500 }, (_, n) => item(`bulk-${n}`, { external_ref: 'bulk' }))
  const answers = await Promise.all([bring(items), bring(items.toReversed()), bring(items)])
  for (const answer of answers) expectStatus(answer, 200)
  expect(answers.reduce((sum, { body }) => sum + body.summary.created, 0)).toBe(500)
  expect(await licences('?external_ref=bulk')).toHaveLength(500)
})

test('a product may exchange a legacy key repeatedly in any status, and the history has the first exchange', async () => {
  const { body } = await bring([item('mig-1', { external_ref: 'secret-customer' })])
  const id = body.items[0]!.licence_id!
  const exchange = (legacy_key: unknown, at = app) =>
    api.post<{ key: string }>(`${at}/migrate`, { key: null, body: { legacy_key } })
  const { key } = await detail(id)
  const exchanged = { licence_id: id, key }
  for (const answer of await Promise.all(Array.from({ length: 20 }, () => exchange('mig-1')))) {
    expect([answer.status, answer.body]).toEqual([200, exchanged])
  }
  expect((await vendor.activate({ key })).body).toMatchObject({ licence_id: id })
  for (const name of ['suspend', 'revoke', 'retire']) {
    await verb(name, id)
    expect((await exchange('mig-1')).body).toEqual(exchanged)
  }
  const migrations = (await history(id)).filter(({ type }) => type === 'migrated')
  expect(migrations).toMatchObject([{ actor: 'product' }])
  const other = await givenVendor(stack)
  expectNotFound(await exchange('mig-1', other.app))
  for (const unknown of ['nope', '', 'a\0b', 'x'.repeat(2_000)]) expectNotFound(await exchange(unknown))
  const half = { key: null, body: '{"legacy_key":"\\ud800"}' }
  expectNotFound(await api.post(`${app}/migrate`, half))
  expectInvalid(await exchange(7), '/legacy_key')
})
