import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
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
      metadata: {},
      updates_until: null,
      trial: false,
    })
  })

  test('restrictions are stored in lower case, and an end in UTC', async () => {
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

  test('the error names each invalid field', async () => {
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

  test('an idempotency key of 1 to 255 characters is required, and checked before the body', async () => {
    const path = `${vendor.app}/licences`
    expectProblem(await stack.api.post(path, { body: {} }), 400, 'idempotency_key_required')
    for (const key of ['', 'x'.repeat(256)]) {
      expectProblem(await send({ external_ref: 'c', plan_id: planId }, key), 400, 'idempotency_key_required')
    }
    expect((await send({ external_ref: 'c', plan_id: planId }, 'x'.repeat(255))).status).toBe(201)
  })
})

describe('idempotency', () => {
  test('a repeated request answers the current state of the licence', async () => {
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

  test('another body with the same key is refused, and another application may use the same key', async () => {
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

  test('a refused request does not use its key up', async () => {
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

  test('fifty concurrent calls with one key issue one licence, and all get it', async () => {
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
