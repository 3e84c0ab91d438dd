import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
let planId: string

beforeAll(async () => {
  stack = await startStack()
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
})
afterAll(() => stack[Symbol.asyncDispose]())

const send = (body: unknown, key: string = randomUUID()) =>
  stack.api.post<Licence>(`${vendor.app}/licences`, { headers: { 'idempotency-key': key }, body })

describe('issue', () => {
  test('the answer is the licence', async () => {
    const answer = await send({ external_ref: 'customer-1', plan_id: planId })
    expect(answer.status).toBe(201)
    expect(answer.headers.get('idempotent-replayed')).toBeNull()
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^lic_[0-9a-z]{26}$/),
      key: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{5}(-[0-9A-HJKMNP-TV-Z]{5}){4}$/),
      status: 'active',
      plan_id: planId,
      application_id: vendor.appId,
      external_ref: 'customer-1',
      restrictions: null,
      expires_on: null,
      created_at: expect.stringMatching(isoTime),
      updated_at: expect.stringMatching(isoTime),
      status_reason: null,
    })
  })

  test('restrictions and an end are kept, in lower case and in UTC', async () => {
    const { body } = await send({
      external_ref: 'c',
      plan_id: planId,
      restrictions: { domains: ['App.Example.COM', '*.example.org'], max_activations: 2, max_seats: 5 },
      expires_on: '2099-06-30T23:59:59.5+02:00',
    })
    expect(body.restrictions).toEqual({
      domains: ['app.example.com', '*.example.org'],
      max_activations: 2,
      max_seats: 5,
    })
    expect(body.expires_on).toBe('2099-06-30T21:59:59.500Z')
    for (const empty of [{}, null, { domains: [] }, { max_seats: null }]) {
      expect(
        (await send({ external_ref: 'c', plan_id: planId, restrictions: empty })).body.restrictions,
      ).toBeNull()
    }
  })

  test('each field that breaks a rule is pointed to', async () => {
    const refuse = async (fields: object, ...pointers: string[]) =>
      expectInvalid(await send({ external_ref: 'c', plan_id: planId, ...fields }), ...pointers)
    expectInvalid(await send({}), '/external_ref', '/plan_id')
    expectInvalid(await send([]), '')
    await refuse({ external_ref: '' }, '/external_ref')
    await refuse({ external_ref: 'x'.repeat(256) }, '/external_ref')
    await refuse({ external_ref: 7 }, '/external_ref')
    await refuse({ external_ref: 'a\0b' }, '/external_ref')
    await refuse({ plan_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab' }, '/plan_id')
    await refuse({ plan_id: 'nonsense' }, '/plan_id')
    await refuse({ status: 'active', 'a/b~c': 1 }, '/status', '/a~1b~0c')
    await refuse({ expires_on: '2001-01-01T00:00:00Z' }, '/expires_on')
    for (const end of ['tomorrow', '2099-02-30T00:00:00Z', '2099-01-01', '2099-01-01T00:00:00', 4102444800]) {
      await refuse({ expires_on: end }, '/expires_on')
    }
    for (const domain of [
      '10.0.0.1',
      '[::1]',
      'https://example.com',
      'a b.com',
      '*',
      '*.',
      'a.*.com',
      '',
      '-a.com',
      'example.com:443',
      'a..b',
    ]) {
      await refuse({ restrictions: { domains: ['ok.example', domain] } }, '/restrictions/domains/1')
    }
    await refuse(
      { restrictions: { domains: Array.from({ length: 101 }, (_, n) => `h${n}.example`) } },
      '/restrictions/domains',
    )
    for (const count of [0, -1, 1.5, '3']) {
      await refuse({ restrictions: { max_activations: count } }, '/restrictions/max_activations')
      await refuse({ restrictions: { max_seats: count } }, '/restrictions/max_seats')
    }
    await refuse({ restrictions: { colour: 1 } }, '/restrictions/colour')
  })

  test('an idempotency key is required, of 1 to 255 characters, before the body’s shape is looked at', async () => {
    const path = `${vendor.app}/licences`
    expectProblem(await stack.api.post(path, { body: {} }), 400, 'idempotency_key_required')
    for (const key of ['', 'x'.repeat(256)]) {
      expectProblem(await send({ external_ref: 'c', plan_id: planId }, key), 400, 'idempotency_key_required')
    }
    expect((await send({ external_ref: 'c', plan_id: planId }, 'x'.repeat(255))).status).toBe(201)
  })
})

describe('idempotency', () => {
  test('a repeated request answers the licence as it now stands', async () => {
    const key = randomUUID()
    const first = await send({ external_ref: 'c', plan_id: planId, restrictions: { max_seats: 2 } }, key)
    await vendor.verb('suspend', first.body.id)
    const text = `{ "restrictions": {"max_seats": 2}, "plan_id": "${planId}",\n "external_ref": "\\u0063" }`
    const again = await send(text, key)
    expect(again.status).toBe(201)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.body).toMatchObject({
      id: first.body.id,
      key: first.body.key,
      status: 'suspended',
      status_reason: 'manual',
    })
  })

  test('another body under the same key is refused, another application has keys of its own', async () => {
    const key = randomUUID()
    const first = await send({ external_ref: 'c', plan_id: planId }, key)
    const other = await send({ external_ref: 'd', plan_id: planId }, key)
    expectProblem(other, 409, 'idempotency_mismatch')
    const elsewhere = await givenVendor(stack)
    const answer = await stack.api.post<Licence>(`${elsewhere.app}/licences`, {
      headers: { 'idempotency-key': key },
      body: { external_ref: 'd', plan_id: (await elsewhere.plan()).id },
    })
    expect(answer.status).toBe(201)
    expect(answer.body.id).not.toBe(first.body.id)
  })

  test('a refused try does not use its key up', async () => {
    const key = randomUUID()
    const plan = await vendor.plan()
    await stack.api.post(`${vendor.app}/plans/${plan.id}/archive`)
    const issue = () => send({ external_ref: 'c', plan_id: plan.id }, key)
    expectProblem(await issue(), 409, 'plan_archived')
    expectInvalid(await send({ external_ref: '', plan_id: plan.id }, key), '/external_ref')
    await stack.api.post(`${vendor.app}/plans/${plan.id}/restore`)
    expect((await issue()).status).toBe(201)
    await stack.api.post(`${vendor.app}/plans/${plan.id}/archive`)
    const replayed = await issue()
    expect(replayed.status).toBe(201)
    expect(replayed.headers.get('idempotent-replayed')).toBe('true')
  })

  test('of fifty callers at once one mints, and all have its licence', async () => {
    const key = randomUUID()
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => send({ external_ref: 'stampede', plan_id: planId }, key)),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') !== 'true')).toHaveLength(1)
    expect(await allRows(stack.api, `${vendor.app}/licences?external_ref=stampede`)).toHaveLength(1)
  })
})

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

  test('an item fails alone, and one that exists is found whatever else is wrong with it', async () => {
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

  test('a body that is not of the shape fails as a whole', async () => {
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

  test('five hundred at once, from several senders, make five hundred licences', async () => {
    const items = Array.from({ length: 500 }, (_, n) => item(`bulk-${n}`, { external_ref: 'bulk' }))
    const answers = await Promise.all([bring(items), bring(items.toReversed()), bring(items)])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(answers.reduce((sum, { body }) => sum + body.summary.created, 0)).toBe(500)
    expect(await allRows(stack.api, `${vendor.app}/licences?external_ref=bulk`)).toHaveLength(500)
  })

  test('a product exchanges a legacy key as often as it asks, and the history tells of the first time', async () => {
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

describe('lifecycle', () => {
  const verbs = ['suspend', 'reactivate', 'revoke', 'retire'] as const
  const outcomes: Record<string, Partial<Record<(typeof verbs)[number], string>>> = {
    active: { suspend: 'suspended', revoke: 'revoked', retire: 'retired' },
    suspended: { reactivate: 'active', revoke: 'revoked', retire: 'retired' },
    revoked: { revoke: 'revoked', retire: 'retired' },
    retired: { retire: 'retired' },
  }
  const pathTo: Record<string, string | null> = {
    active: null,
    suspended: 'suspend',
    revoked: 'revoke',
    retired: 'retire',
  }

  for (const from of Object.keys(outcomes)) {
    test.each(verbs)(`${from}: %s`, async (verb) => {
      const { id } = await vendor.issue(planId)
      if (pathTo[from]) await vendor.verb(pathTo[from], id)
      const before = await stack.api.get<Licence>(`/v1/licences/${id}`)
      const answer = await vendor.verb(verb, id)
      const to = outcomes[from]![verb]
      const after = await stack.api.get<Licence>(`/v1/licences/${id}`)
      if (to === undefined) {
        const problem = expectProblem(answer, 409, 'conflict')
        expect(problem.current).toBe(from)
        const changing = verbs.filter(
          (each) => outcomes[from]![each] !== undefined && outcomes[from]![each] !== from,
        )
        expect(problem.allowed?.toSorted()).toEqual(changing.toSorted())
        expect(problem.detail).toContain(id)
        expect(after.body).toEqual(before.body)
        return
      }
      expect(answer.status).toBe(200)
      expect(answer.body).toMatchObject({
        id,
        status: to,
        status_reason: to === 'suspended' ? 'manual' : null,
      })
      expect(Object.keys(answer.body).toSorted()).toEqual(Object.keys(await vendor.issue(planId)).toSorted())
      if (to === from) expect(after.body).toEqual(before.body)
    })
  }

  test('a suspended licence on a retired plan offers no reactivate', async () => {
    const plan = await vendor.plan()
    const { id } = await vendor.issue(plan.id)
    await stack.api.post(`${vendor.app}/plans/${plan.id}/archive`)
    const problem = expectProblem(await vendor.verb('suspend', id), 409, 'conflict')
    expect(problem.allowed?.toSorted()).toEqual(['retire', 'revoke'])
  })

  test('verbs that race: one wins, the others hear what it made', async () => {
    const { id } = await vendor.issue(planId)
    const answers = await Promise.all(Array.from({ length: 20 }, () => vendor.verb('suspend', id)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expect(expectProblem(answer, 409, 'conflict').current).toBe('suspended')
    }
    const history = await allRows<{ type: string }>(stack.api, `/v1/licences/${id}/history`)
    expect(history.map(({ type }) => type)).toEqual(['suspended', 'issued'])
  })

  test('the history tells what changed, by whom, newest first, page by page', async () => {
    const { id } = await vendor.issue(planId)
    for (const verb of ['suspend', 'reactivate', 'suspend', 'revoke', 'revoke', 'retire', 'retire'])
      await vendor.verb(verb, id)
    const rows = await allRows<Record<string, string | null>>(stack.api, `/v1/licences/${id}/history`, 2)
    expect(rows.map(({ type, from, to }) => [type, from, to])).toEqual([
      ['retired', 'revoked', 'retired'],
      ['revoked', 'suspended', 'revoked'],
      ['suspended', 'active', 'suspended'],
      ['reactivated', 'suspended', 'active'],
      ['suspended', 'active', 'suspended'],
      ['issued', null, 'active'],
    ])
    for (const row of rows) {
      expect(row['actor']).toMatch(/^key_/)
      expect(row['at']).toMatch(isoTime)
      expect(row).toHaveProperty('cause')
    }
  })

  test('a licence that is not there is 404 to every call', async () => {
    for (const id of ['lic_01k9zj3v8qe5ktw2m4x6r7n8ab', 'nonsense']) {
      for (const verb of verbs) expectProblem(await vendor.verb(verb, id), 404, 'not_found')
      expectProblem(await stack.api.get(`/v1/licences/${id}`), 404, 'not_found')
      expectProblem(await stack.api.get(`/v1/licences/${id}/history`), 404, 'not_found')
    }
  })

  test('a verb takes no body, an empty object, and nothing else', async () => {
    const { id } = await vendor.issue(planId)
    const path = `/v1/licences/${id}/suspend`
    expectInvalid(await stack.api.post(path, { body: { reason: 'x' } }), '/reason')
    expectProblem(await stack.api.post(path, { body: '{' }), 400, 'bad_request')
    expectProblem(
      await stack.api.post(path, { body: 'x', headers: { 'content-type': 'text/plain' } }),
      415,
      'unsupported_media_type',
    )
    expect((await stack.api.post(path, { body: {} })).status).toBe(200)
    expect(
      (
        await stack.api.post(`/v1/licences/${id}/reactivate`, {
          headers: { 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(200)
  })
})
