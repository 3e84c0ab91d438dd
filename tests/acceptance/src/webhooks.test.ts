import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { signatureOf, verifies } from './delivery.ts'
import type { Delivery, DeliveryDetail, Endpoint, Envelope } from './delivery.ts'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Page } from './vendor.ts'

let stack: Stack
let receiver: HttpsReceiver

beforeAll(async () => {
  receiver = await startHttpsReceiver()
  stack = await sharedStack()
})
afterEach(() => receiver.answerWith({}))
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

let paths = 0

/** An application with its own endpoint at the receiver. */
async function givenEndpoint(subscribedEvents = '*') {
  const vendor = await givenVendor(stack)
  const more = async (events: string) => {
    const path = `/hook-${++paths}`
    const made = await stack.api.post<Endpoint & { secret: string }>(`${vendor.app}/webhook-endpoints`, {
      body: { url: receiver.url(path), subscribed_events: events },
    })
    expect(made.status, JSON.stringify(made.body)).toBe(201)
    const arrived = () => receiver.requests.filter((request) => request.path === path)
    const next = (count: number) =>
      eventually(() => {
        if (arrived().length < count) throw new Error(`${arrived().length} of ${count} deliveries arrived`)
        return arrived()
      })
    return { ...made.body, at: `${vendor.app}/webhook-endpoints/${made.body.id}`, arrived, next }
  }
  return { ...vendor, more, endpoint: await more(subscribedEvents) }
}

const envelopeOf = (request: { body: Buffer }) => JSON.parse(request.body.toString()) as Envelope

test('only the creation of an endpoint returns its secret', async () => {
  const { api, app, endpoint } = await givenEndpoint(' licence.revoked , licence.expired')
  expect(endpoint).toMatchObject({
    id: expect.stringMatching(/^whe_[0-9a-z]{26}$/),
    subscribed_events: 'licence.revoked,licence.expired',
    status: 'enabled',
    created_at: expect.stringMatching(isoTime),
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9_-]{43}$/),
  })
  const read = await api.get(endpoint.at)
  expect(read.body).toMatchObject({
    id: endpoint.id,
    url: endpoint.url,
    status: 'enabled',
    disabled_at: null,
    disabled_reason: null,
  })
  expect(read.body).not.toHaveProperty('secret')
  expect((await api.get<Page<unknown>>(`${app}/webhook-endpoints`)).body).toEqual({
    data: [read.body],
    next_cursor: null,
  })
})

test('a delivery has the envelope, the headers, and a signature over the exact bytes', async () => {
  const { api, appId, endpoint, plan, issue, verb } = await givenEndpoint()
  const licence = await issue((await plan()).id)
  await verb('suspend', licence.id)
  const [request] = await endpoint.next(1)
  expect(request?.method).toBe('POST')
  expect(request?.headers['content-type']).toMatch(/^application\/json/)
  expect(request?.headers['user-agent']).toBeTruthy()
  expect(request?.headers['webhook-attempt']).toBe('1')
  expect(verifies(request!, endpoint.secret)).toBe(true)
  expect(Math.abs(signatureOf(request!).time - Date.now() / 1000)).toBeLessThan(60)
  const envelope = envelopeOf(request!)
  expect(request?.headers['webhook-id']).toBe(envelope.id)
  expect(envelope).toEqual({
    id: expect.stringMatching(/^evt_[0-9a-z]{26}$/),
    type: 'licence.suspended',
    api_version: '2026-11-01',
    created_at: expect.stringMatching(isoTime),
    sequence: expect.any(Number),
    account_id: stack.accountId,
    application_id: appId,
    data: { object: { licence_id: licence.id, status: 'suspended', reason: 'manual' } },
    previous: null,
  })
  const feed = await api.get<{ data: Envelope[]; next_after: number }>(
    `/v1/events?after=${envelope.sequence - 1}&limit=1`,
  )
  expect(feed.body).toEqual({ data: [envelope], next_after: envelope.sequence })
})

test('each verb that changes a licence sends one event, in order, and no other event is sent', async () => {
  const { api, app, endpoint, plan, issue, verb } = await givenEndpoint()
  const { id: planId } = await plan()
  const [one, two] = [await issue(planId), await issue(planId)]
  for (const name of ['suspend', 'suspend', 'reactivate', 'revoke', 'revoke', 'retire', 'retire'])
    await verb(name, one.id)
  await api.post(`${app}/plans/${planId}/archive`)
  const requests = await endpoint.next(5)
  const envelopes = requests.map(envelopeOf).toSorted((a, b) => a.sequence - b.sequence)
  expect(envelopes.map(({ type, data }) => [type, data.object])).toEqual([
    ['licence.suspended', { licence_id: one.id, status: 'suspended', reason: 'manual' }],
    ['licence.reactivated', { licence_id: one.id, status: 'active' }],
    ['licence.revoked', { licence_id: one.id, status: 'revoked' }],
    ['licence.retired', { licence_id: one.id, status: 'retired' }],
    ['licence.suspended', { licence_id: two.id, status: 'suspended', reason: 'plan_archived' }],
  ])
  const first = envelopes[0]!.sequence
  expect(envelopes.map(({ sequence }) => sequence)).toEqual([
    first,
    first + 1,
    first + 2,
    first + 3,
    first + 4,
  ])
})

test('the feed has the account’s events from 1 on without a gap, and for a bound key those of its application', async () => {
  const { api, appId, endpoint, plan, issue, verb } = await givenEndpoint()
  const licence = await issue((await plan()).id)
  await verb('suspend', licence.id)
  await verb('reactivate', licence.id)
  await endpoint.next(2)
  const all: Envelope[] = []
  for (let after = 0; ;) {
    const page = await api.get<{ data: Envelope[]; next_after: number }>(`/v1/events?after=${after}&limit=3`)
    all.push(...page.body.data)
    if (page.body.data.length === 0) {
      expect(page.body.next_after).toBe(after)
      break
    }
    expect(page.body.next_after).toBe(page.body.data.at(-1)?.sequence)
    after = page.body.next_after
  }
  expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, index) => index + 1))
  const { body: bound } = await api.post<{ key: string }>('/v1/api-keys', {
    body: { name: 'b', scopes: ['read'], app_id: appId },
  })
  const own = await api.get<{ data: Envelope[] }>('/v1/events', { key: bound.key })
  expect(own.body.data).toEqual(all.filter((each) => each.application_id === appId))
  expect(own.body.data).toHaveLength(2)
  for (const after of ['-1', 'x', '1.5', ''])
    expectInvalid(await api.get(`/v1/events?after=${after}`), '/after')
  for (const limit of ['0', '201']) expectInvalid(await api.get(`/v1/events?limit=${limit}`), '/limit')
  expect((await api.get('/v1/events?after=999999')).body).toEqual({ data: [], next_after: 999999 })
})

test('every endpoint gets the events that it is subscribed to, signed with its own secret', async () => {
  const { endpoint, more, plan, issue, verb } = await givenEndpoint('licence.revoked')
  const [all, both] = [await more('*'), await more('licence.suspended,licence.revoked')]
  const licence = await issue((await plan()).id)
  for (const name of ['suspend', 'reactivate', 'revoke']) await verb(name, licence.id)
  const types = (requests: { body: Buffer }[]) =>
    requests.map((request) => envelopeOf(request).type).toSorted()
  expect(types(await all.next(3))).toEqual(['licence.reactivated', 'licence.revoked', 'licence.suspended'])
  expect(types(await both.next(2))).toEqual(['licence.revoked', 'licence.suspended'])
  const [request] = await endpoint.next(1)
  expect(types(endpoint.arrived())).toEqual(['licence.revoked'])
  expect(verifies(request!, endpoint.secret)).toBe(true)
  expect(verifies(request!, all.secret)).toBe(false)
  const same = all.arrived().find((each) => envelopeOf(each).type === 'licence.revoked')
  expect(same?.body.equals(request!.body)).toBe(true)
})

test('after a rotation the next delivery is signed with the new secret', async () => {
  const { api, endpoint, plan, issue, verb } = await givenEndpoint()
  const licence = await issue((await plan()).id)
  const rotated = await api.post<{ id: string; secret: string }>(`${endpoint.at}/rotate-secret`)
  expect(rotated.status).toBe(200)
  expect(Object.keys(rotated.body).toSorted()).toEqual(['id', 'secret'])
  expect(rotated.body.secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
  expect(rotated.body.secret).not.toBe(endpoint.secret)
  await verb('suspend', licence.id)
  const [request] = await endpoint.next(1)
  expect(verifies(request!, rotated.body.secret)).toBe(true)
  expect(verifies(request!, endpoint.secret)).toBe(false)
})

test('a test event goes only to its endpoint, regardless of subscriptions, and is in the feed like any other event', async () => {
  const { api, app, appId, endpoint, more } = await givenEndpoint('licence.revoked')
  const other = await more('*')
  const sent = await api.post<{ event_id: string }>(`${endpoint.at}/test`)
  expect(sent.status).toBe(202)
  const [request] = await endpoint.next(1)
  expect(envelopeOf(request!)).toMatchObject({
    id: sent.body.event_id,
    type: 'webhook.test',
    application_id: appId,
    data: { object: { ping: true } },
    previous: null,
  })
  expect(verifies(request!, endpoint.secret)).toBe(true)
  const deliveries = await allRows<Delivery>(api, `${app}/webhook-deliveries`)
  expect(deliveries.map(({ endpoint_id: to, event_type: type }) => [to, type])).toEqual([
    [endpoint.id, 'webhook.test'],
  ])
  expect(other.arrived()).toEqual([])
  const { sequence } = envelopeOf(request!)
  expect((await api.get<{ data: Envelope[] }>(`/v1/events?after=${sequence - 1}&limit=1`)).body.data).toEqual(
    [envelopeOf(request!)],
  )
})

test('a deleted endpoint stays listed, gets no more deliveries, and refuses all actions', async () => {
  const { api, app, endpoint, more, plan, issue, verb } = await givenEndpoint()
  receiver.answerWith({ status: 500 })
  const licence = await issue((await plan()).id)
  await verb('suspend', licence.id)
  await endpoint.next(1)
  expect((await api.delete(endpoint.at)).status).toBe(204)
  expect((await api.get(endpoint.at)).body).toMatchObject({
    status: 'disabled',
    disabled_reason: 'deleted',
    disabled_at: expect.stringMatching(isoTime),
  })
  const [pending] = await allRows<Delivery>(api, `${app}/webhook-deliveries`)
  expect(pending).toMatchObject({ status: 'failed', next_attempt_at: null })
  for (const answer of [
    await api.delete(endpoint.at),
    await api.post(`${endpoint.at}/rotate-secret`),
    await api.post(`${endpoint.at}/test`),
    await api.post(`${app}/webhook-deliveries/${pending!.id}/replay`),
  ]) {
    expectProblem(answer, 409, 'conflict')
  }
  receiver.answerWith({})
  const witness = await more('*')
  await verb('reactivate', licence.id)
  await witness.next(1)
  expect(endpoint.arrived()).toHaveLength(1)
  const replayed = await api.post<{ id: string }>(`${app}/webhook-deliveries/${pending!.id}/replay`, {
    body: { endpoint_id: witness.id },
  })
  expect(replayed.status).toBe(202)
  expect(replayed.body.id).not.toBe(pending!.id)
  const requests = await witness.next(2)
  const copy = requests.find((request) => envelopeOf(request).id === pending!.event_id)
  expect(copy?.body.equals(endpoint.arrived()[0]!.body)).toBe(true)
  expect(verifies(copy!, witness.secret)).toBe(true)
  const onDead = await api.post(`${app}/webhook-deliveries/${pending!.id}/replay`, {
    body: { endpoint_id: endpoint.id },
  })
  expectProblem(onDead, 409, 'conflict')
  expectInvalid(
    await api.post(`${app}/webhook-deliveries/${pending!.id}/replay`, {
      body: { endpoint_id: 'whe_01k9zj3v8qe5ktw2m4x6r7n8ab' },
    }),
    '/endpoint_id',
  )
})

test('a delivery shows the exact payload and every attempt, and a replay adds an attempt', async () => {
  const { api, app, endpoint, plan, issue, verb } = await givenEndpoint()
  receiver.answerWith({
    status: 302,
    headers: { location: receiver.url('/elsewhere') },
    body: 'x'.repeat(3_000),
  })
  const licence = await issue((await plan()).id)
  await verb('suspend', licence.id)
  const [request] = await endpoint.next(1)
  const [row] = await allRows<Delivery>(api, `${app}/webhook-deliveries`)
  const read = () => api.get<DeliveryDetail>(`${app}/webhook-deliveries/${row!.id}`)
  const failed = await eventually(async () => {
    const { body } = await read()
    expect(body.attempts).toHaveLength(1)
    return body
  })
  expect(failed).toMatchObject({
    id: expect.stringMatching(/^dlv_/),
    event_id: envelopeOf(request!).id,
    event_type: 'licence.suspended',
    endpoint_id: endpoint.id,
    status: 'pending',
    attempt_count: 1,
    next_attempt_at: expect.stringMatching(isoTime),
    last_response_code: 302,
    payload: request!.body.toString(),
  })
  expect(failed.attempts[0]).toMatchObject({
    attempt: 1,
    response_code: 302,
    at: expect.stringMatching(isoTime),
  })
  expect(failed.attempts[0]?.response_excerpt).toBe('x'.repeat(1024))
  expect(failed.attempts[0]?.duration_ms).toEqual(expect.any(Number))
  expect(receiver.requests.some(({ path }) => path === '/elsewhere')).toBe(false)

  receiver.answerWith({ status: 204 })
  const replayed = await api.post<{ id: string }>(`${app}/webhook-deliveries/${row!.id}/replay`)
  expect(replayed.status).toBe(202)
  expect(replayed.body).toEqual({ id: row!.id })
  const requests = await endpoint.next(2)
  expect(requests[1]?.body.equals(request!.body)).toBe(true)
  expect(requests[1]?.headers['webhook-id']).toBe(request?.headers['webhook-id'])
  expect(requests[1]?.headers['webhook-attempt']).toBe('2')
  expect(verifies(requests[1]!, endpoint.secret)).toBe(true)
  await eventually(async () => {
    expect((await read()).body).toMatchObject({
      status: 'delivered',
      attempt_count: 2,
      next_attempt_at: null,
      last_response_code: 204,
    })
  })
  const { attempts } = (await read()).body
  expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2])
  const one = `${app}/webhook-deliveries/${row!.id}`
  expect(await allRows(api, `${one}/attempts`, 1)).toEqual(attempts.toReversed())
  expectProblem(await api.get(`${one.slice(0, -1)}${one.endsWith('0') ? 1 : 0}/attempts`), 404, 'not_found')
  const again = await api.post(`${app}/webhook-deliveries/${row!.id}/replay`, { body: {} })
  expect(again.status).toBe(202)
  await endpoint.next(3)
})

test('deliveries are listed newest first by endpoint, type and status', async () => {
  const { api, app, endpoint, more, plan, issue, verb } = await givenEndpoint()
  const other = await more('licence.revoked')
  const licence = await issue((await plan()).id)
  for (const name of ['suspend', 'revoke']) await verb(name, licence.id)
  await endpoint.next(2)
  await other.next(1)
  const list = (query: string) => allRows<Delivery>(api, `${app}/webhook-deliveries?${query}`, 1)
  await eventually(async () => expect(await list('status=delivered')).toHaveLength(3))
  expect(await list('status=pending')).toEqual([])
  expect((await list(`endpoint=${endpoint.id}`)).map(({ event_type: type }) => type)).toEqual([
    'licence.revoked',
    'licence.suspended',
  ])
  expect(await list('type=licence.revoked')).toHaveLength(2)
  expect(await list(`type=licence.suspended&endpoint=${other.id}`)).toEqual([])
  expect(await list('endpoint=whe_01k9zj3v8qe5ktw2m4x6r7n8ab')).toEqual([])
  expectInvalid(await api.get(`${app}/webhook-deliveries?status=lost`), '/status')
  for (const id of ['dlv_01k9zj3v8qe5ktw2m4x6r7n8ab', 'x']) {
    expectProblem(await api.get(`${app}/webhook-deliveries/${id}`), 404, 'not_found')
    expectProblem(await api.post(`${app}/webhook-deliveries/${id}/replay`), 404, 'not_found')
  }
})

test('an endpoint that hangs does not delay another, and its attempt ends after 5 seconds', async () => {
  const { api, app, endpoint, more, plan, issue, verb } = await givenEndpoint()
  const dead = await more('*')
  receiver.answerWith((request) => (request.path === new URL(dead.url).pathname ? 'hang' : {}))
  const licence = await issue((await plan()).id)
  const startedAt = Date.now()
  await verb('suspend', licence.id)
  const [request] = await endpoint.next(1)
  expect(request!.arrivedAt - startedAt).toBeLessThan(4_900)
  await eventually(async () => {
    const [row] = await allRows<Delivery>(api, `${app}/webhook-deliveries?endpoint=${dead.id}`)
    const { body } = await api.get<DeliveryDetail>(`${app}/webhook-deliveries/${row!.id}`)
    expect(body.attempts[0]).toMatchObject({ attempt: 1, response_code: null, error: expect.any(String) })
    expect(body.attempts[0]!.duration_ms).toBeGreaterThan(4_500)
    expect(body.attempts[0]!.duration_ms).toBeLessThan(9_500)
  })
})
