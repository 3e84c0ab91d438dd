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

test('a body that does not match the schema fails as a whole', async () => {
  expectInvalid(await bring([]), '/items')
  expectInvalid(await bring(undefined), '/items')
  expectInvalid(await bring(Array.from({ length: 501 }, (_, n) => item(`n${n}`))), '/items')
  expectInvalid(await bring([item('g'), { legacy_key: 'h', plan_id: planId }]), '/items/1/external_ref')
  expectInvalid(await bring([item('g', { colour: 'red' })]), '/items/0/colour')
  expectInvalid(await bring([item('g', { plan_id: 4 })]), '/items/0/plan_id')
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
