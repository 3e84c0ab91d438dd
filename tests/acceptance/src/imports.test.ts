import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
let planId: string

beforeAll(async () => {
  stack = await sharedStack()
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
})
afterAll(() => stack[Symbol.asyncDispose]())

describe('import', () => {
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
    stack.api.post<Imported>(`${vendor.app}/licences/import`, { body: { items, ...more } })
  const item = (legacyKey: string, fields: object = {}) => ({
    legacy_key: legacyKey,
    external_ref: 'c',
    plan_id: planId,
    ...fields,
  })

  test('items are created once, and found again on every later run', async () => {
    const items = [item('old-1'), item('old-2'), item('old-1')]
    const first = await bring(items)
    expect(first.status).toBe(200)
    expect(first.body.summary).toEqual({ created: 2, existing: 1, failed: 0 })
    expect(first.body.items.map(({ legacy_key: key, result, error }) => [key, result, error])).toEqual([
      ['old-1', 'created', null],
      ['old-2', 'created', null],
      ['old-1', 'existing', null],
    ])
    const [one, two, three] = first.body.items.map(({ licence_id: id }) => id)
    expect(three).toBe(one)
    const again = await bring(items)
    expect(again.body.summary).toEqual({ created: 0, existing: 3, failed: 0 })
    expect(again.body.items.map(({ licence_id: id }) => id)).toEqual([one, two, one])
    const detail = await stack.api.get(`/v1/licences/${one}`)
    expect(detail.body).toMatchObject({
      status: 'active',
      legacy_key: 'old-1',
      plan_id: planId,
      external_ref: 'c',
    })
    const history = await allRows<{ type: string }>(stack.api, `/v1/licences/${one}/history`)
    expect(history.map(({ type }) => type)).toEqual(['imported'])
  })

  test('an invalid item does not affect others, and an existing one is found even if its other fields are invalid', async () => {
    const retired = await vendor.plan()
    await stack.api.post(`${vendor.app}/plans/${retired.id}/archive`)
    await bring([item('here')])
    const { body } = await bring([
      item('a', { plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab' }),
      item('b', { plan_id: 'gold' }),
      item('c', { plan_id: retired.id }),
      item(''),
      item('x'.repeat(256)),
      item('d', { external_ref: '' }),
      item('e', { external_ref: 'x'.repeat(256) }),
      item('here', { plan_id: 'gold', external_ref: '' }),
      item('f'),
      item('c'),
    ])
    expect(body.items.map(({ result, error }) => error?.code ?? result)).toEqual([
      'not_found',
      'not_found',
      'plan_archived',
      'validation_failed',
      'validation_failed',
      'validation_failed',
      'validation_failed',
      'existing',
      'created',
      'created',
    ])
    expect(body.summary).toEqual({ created: 2, existing: 1, failed: 7 })
    for (const each of body.items.filter(({ result }) => result === 'failed')) {
      expect(each.licence_id).toBeNull()
      expect(each.error?.detail).toEqual(expect.any(String))
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
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(answers.reduce((sum, { body }) => sum + body.summary.created, 0)).toBe(500)
    expect(await allRows(stack.api, `${vendor.app}/licences?external_ref=bulk`)).toHaveLength(500)
  })

  test('a product may exchange a legacy key repeatedly, and the history has the first exchange', async () => {
    const { body } = await bring([item('mig-1')])
    const id = body.items[0]!.licence_id!
    await vendor.verb('suspend', id)
    const exchange = (legacyKey: string) =>
      stack.api.post(`${vendor.app}/migrate`, { key: null, body: { legacy_key: legacyKey } })
    const detail = await stack.api.get<Licence>(`/v1/licences/${id}`)
    for (let times = 0; times < 2; times++) {
      const answer = await exchange('mig-1')
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual({ licence_id: id, key: detail.body.key })
    }
    const history = await allRows<{ type: string; actor: string }>(stack.api, `/v1/licences/${id}/history`)
    expect(history.map(({ type }) => type)).toEqual(['migrated', 'suspended', 'imported'])
    expect(history[0]?.actor).toBe('product')
    for (const unknown of ['nope', '', 'a\0b', 'x'.repeat(2_000)]) {
      expectProblem(await exchange(unknown), 404, 'not_found')
    }
    const half = await stack.api.post(`${vendor.app}/migrate`, {
      key: null,
      body: '{"legacy_key":"\\ud800"}',
    })
    expectProblem(half, 404, 'not_found')
  })
})

test('a legacy key may be exchanged repeatedly in any status, and the history has one exchange', async () => {
  const legacyKey = `OLD-${randomUUID()}`
  const imported = await stack.api.post<{ items: { licence_id: string }[] }>(
    `${vendor.app}/licences/import`,
    {
      body: { items: [{ legacy_key: legacyKey, external_ref: 'secret-customer', plan_id: planId }] },
    },
  )
  const id = imported.body.items[0]!.licence_id
  const migrate = (key: unknown, app = vendor.app) =>
    stack.api.post<{ licence_id: string; key: string }>(`${app}/migrate`, {
      key: null,
      body: { legacy_key: key },
    })
  const answers = await Promise.all(Array.from({ length: 20 }, () => migrate(legacyKey)))
  for (const answer of answers) {
    expect(answer).toMatchObject({ status: 200, body: { licence_id: id } })
    expect(answer.body).toEqual({ licence_id: id, key: answers[0]!.body.key })
  }
  expect((await vendor.activate(answers[0]!.body)).body).toMatchObject({ licence_id: id })
  for (const verb of ['suspend', 'revoke', 'retire']) {
    await vendor.verb(verb, id)
    expect(await migrate(legacyKey)).toMatchObject({ status: 200, body: { licence_id: id } })
  }
  const history = await stack.api.get<{ data: { type: string; actor: string }[] }>(
    `/v1/licences/${id}/history`,
  )
  expect(history.body.data.filter(({ type }) => type === 'migrated')).toMatchObject([{ actor: 'product' }])
  const other = await givenVendor(stack)
  for (const wrong of [await migrate('none'), await migrate(''), await migrate(legacyKey, other.app)]) {
    expectProblem(wrong, 404, 'not_found')
  }
  expectInvalid(await migrate(undefined), '/legacy_key')
})
