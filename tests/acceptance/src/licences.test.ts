import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  expectInvalid,
  expectProblem,
  expectStatus,
  givenStack,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Licence } from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
const { api, app, appId, issue, patch, detail, history, verb, licences } = vendor
const { id: plan_id } = await vendor.plan()

const send = (body: unknown, key: string = randomUUID(), path = app) =>
  api.post<Licence>(`${path}/licences`, { headers: { 'idempotency-key': key }, body })
const isReplay = ({ headers }: Awaited<ReturnType<typeof send>>) =>
  headers.get('idempotent-replayed') === 'true'
const order = { external_ref: 'c', plan_id }

test('the answer of an issue is the licence, a row of a list is the same, and its detail has no activations', async () => {
  const answer = await send({ external_ref: 'customer-1', plan_id })
  expect([answer.status, isReplay(answer)]).toEqual([201, false])
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^lic_[0-9a-z]{26}$/) as string,
    key: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{5}(-[0-9A-HJKMNP-TV-Z]{5}){4}$/) as string,
    status: 'active',
    plan_id,
    application_id: appId,
    external_ref: 'customer-1',
    restrictions: null,
    expires_on: null,
    created_at: expect.stringMatching(isoTime) as string,
    updated_at: expect.stringMatching(isoTime) as string,
    status_reason: null,
    metadata: {},
    updates_until: null,
    trial: false,
  })
  expect(await licences('?external_ref=customer-1')).toEqual([answer.body])
  const unused = { activations: [], activations_total: 0, call_home: [], legacy_key: null, overrides: [] }
  expect(await detail(answer.body.id)).toMatchObject({ ...answer.body, ...unused })
})

test('restrictions are stored in lower case, and an end in UTC', async () => {
  const domains = ['App.Example.COM', '*.example.org']
  const { body } = await send({
    ...order,
    restrictions: { domains, max_activations: 2, max_seats: 5 },
    expires_on: '2099-06-30T23:59:59.5+02:00',
  })
  const stored = { domains: ['app.example.com', '*.example.org'], max_activations: 2, max_seats: 5 }
  expect(body.restrictions).toEqual(stored)
  expect(body.expires_on).toBe('2099-06-30T21:59:59.500Z')
  for (const restrictions of [{}, null, { domains: [] }, { max_seats: null }]) {
    expect((await send({ ...order, restrictions })).body.restrictions).toBeNull()
  }
})

test('the error names each invalid field', async () => {
  expectInvalid(await send({}), '/external_ref', '/plan_id')
  expectInvalid(await send([]), '')
  expectInvalid(await send({ ...order, status: 'active', 'a/b~c': 1 }), '/status', '/a~1b~0c')
  for (const [field, value] of [
    ['external_ref', 7],
    ['external_ref', 'a\0b'],
    ['plan_id', unknownId('pln')],
    ['plan_id', 'nonsense'],
    ...['2001-01-01T00:00:00Z', 'tomorrow', '2099-02-30T00:00:00Z', '2099-01-01', 4102444800].map(
      (end) => ['expires_on', end] as const,
    ),
  ] as const) {
    expectInvalid(await send({ ...order, [field]: value }), `/${field}`)
  }
  const refuse = async (restrictions: object, pointer: string) =>
    expectInvalid(await send({ ...order, restrictions }), `/restrictions/${pointer}`)
  for (const domain of [
    '10.0.0.1',
    '[::1]',
    'https://a.com',
    'a b.com',
    '*',
    'a.*.com',
    '',
    '-a.com',
    'a..b',
  ]) {
    await refuse({ domains: ['ok.example', domain] }, 'domains/1')
  }
  await refuse({ domains: Array.from({ length: 101 }, (_, n) => `h${n}.example`) }, 'domains')
  for (const field of ['max_activations', 'max_seats']) {
    for (const count of [0, 1.5, '3']) await refuse({ [field]: count }, field)
  }
  await refuse({ lease_minutes: 15 }, 'lease_minutes')
  await refuse({ colour: 1 }, 'colour')
})

test('an idempotency key is required, and checked before the body', async () => {
  expectProblem(await api.post(`${app}/licences`, { body: {} }), 400, 'idempotency_key_required')
  expectProblem(await send({}, ''), 400, 'idempotency_key_required')
})

test('a repeated request answers the current state of the licence', async () => {
  const idempotencyKey = randomUUID()
  const first = await send({ ...order, restrictions: { max_seats: 2 } }, idempotencyKey)
  const { id, key } = first.body
  await verb('suspend', id)
  const text = `{ "restrictions": {"max_seats": 2}, "plan_id": "${plan_id}",\n "external_ref": "\\u0063" }`
  const again = await send(text, idempotencyKey)
  expect([again.status, isReplay(again)]).toEqual([201, true])
  expect(again.body).toMatchObject({ id, key, status: 'suspended', status_reason: 'manual' })
})

test('another body with the same key is refused, and another application may use the same key', async () => {
  const key = randomUUID()
  const first = await send(order, key)
  expectProblem(await send({ external_ref: 'd', plan_id }, key), 409, 'idempotency_mismatch')
  const elsewhere = await givenVendor(stack)
  const other = { external_ref: 'd', plan_id: (await elsewhere.plan()).id }
  const answer = await send(other, key, elsewhere.app)
  expect(answer.status).toBe(201)
  expect(answer.body.id).not.toBe(first.body.id)
})

test('a refused request does not use its key up', async () => {
  const key = randomUUID()
  const { id } = await vendor.plan()
  const change = (name: string) => api.post(`${app}/plans/${id}/${name}`)
  await change('archive')
  const again = () => send({ external_ref: 'c', plan_id: id }, key)
  expectProblem(await again(), 409, 'plan_archived')
  expectInvalid(await send({ external_ref: '', plan_id: id }, key), '/external_ref')
  await change('restore')
  expectStatus(await again(), 201)
  await change('archive')
  const replayed = await again()
  expect([replayed.status, isReplay(replayed)]).toEqual([201, true])
})

test('fifty concurrent calls with one key issue one licence, and all get it', async () => {
  const key = randomUUID()
  const stampede = { external_ref: 'stampede', plan_id }
  const answers = await Promise.all(Array.from({ length: 50 }, () => send(stampede, key)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1)
  expect(await licences('?external_ref=stampede')).toHaveLength(1)
})

test('a licence’s reference, restrictions and end can be changed, and the history has old and new values', async () => {
  const { id, key } = await issue(plan_id, { external_ref: 'old', restrictions: { max_seats: 2 } })
  const changed = await patch(id, {
    external_ref: 'new',
    restrictions: { domains: ['App.Example.com'], max_seats: null },
    expires_on: '2099-01-01T00:00:00+01:00',
  })
  const [restrictions, expires_on] = [{ domains: ['app.example.com'] }, '2098-12-31T23:00:00.000Z']
  const body = { id, key, external_ref: 'new', restrictions, expires_on }
  expect(changed).toMatchObject({ status: 200, body })
  const changes = {
    external_ref: { from: 'old', to: 'new' },
    restrictions: { from: { max_seats: 2 }, to: restrictions },
    expires_on: { from: null, to: expires_on },
  }
  expect(await history(id)).toMatchObject([
    { type: 'changed', changes },
    { type: 'issued', changes: null },
  ])
  const cleared = { restrictions: null, expires_on: null }
  expect((await patch(id, cleared)).body).toMatchObject({ ...cleared, external_ref: 'new' })
})

test('a PATCH without a change answers 200 and writes no history', async () => {
  const { id, external_ref, updated_at } = await issue(plan_id)
  for (const body of [{}, { external_ref, restrictions: {}, expires_on: null }]) {
    expect(await patch(id, body)).toMatchObject({ status: 200, body: { updated_at } })
  }
  expect(await history(id)).toHaveLength(1)
})

test('a null reference, another field and a past end are 422; a revoked licence is 409', async () => {
  const { id } = await issue(plan_id)
  expectInvalid(await patch(id, { external_ref: null }), '/external_ref')
  expectInvalid(await patch(id, { plan_id }), '/plan_id')
  expectInvalid(await patch(id, { expires_on: '2001-01-01T00:00:00Z' }), '/expires_on')
  await verb('revoke', id)
  const refused = expectProblem(await patch(id, { external_ref: 'x' }), 409, 'conflict')
  expect(refused).toMatchObject({ current: 'revoked', allowed: ['retire'] })
})
