import { afterEach, expect, test } from 'vitest'
import { eventually } from '@licensing/test-support/poll'
import { envelopeOf, givenEndpoint, signatureOf, verifies } from './delivery.ts'
import type { Delivery, DeliveryDetail, Envelope } from './delivery.ts'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenReceiver,
  givenStack,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'

const stack = await givenStack()
const receiver = await givenReceiver()
afterEach(() => receiver.answerWith({}))

/** An application with a licence and an endpoint. */
async function given(events = '*') {
  const vendor = await givenVendor(stack)
  const { api, app, plan, issue, verb } = vendor
  const { id: planId } = await plan()
  const licence = await issue(planId)
  return {
    ...vendor,
    planId,
    licence,
    endpoint: await givenEndpoint(vendor, receiver, events),
    more: (types: string) => givenEndpoint(vendor, receiver, types),
    /** Uses these verbs on the licence. */
    happen: async (...verbs: string[]) => {
      for (const name of verbs) await verb(name, licence.id)
    },
    deliveries: () => allRows<Delivery>(api, `${app}/webhook-deliveries`),
    /** Replays a delivery, by default to its own endpoint. */
    replay: (id: string, endpointId?: string) =>
      api.post<{ id: string }>(`${app}/webhook-deliveries/${id}/replay`, {
        body: endpointId === undefined ? {} : { endpoint_id: endpointId },
      }),
  }
}

/** One page of the account's events. */
const feed = async (query: string) =>
  (await stack.api.get<{ data: Envelope[]; next_after: number }>(`/v1/events?${query}`)).body

test('only the creation of an endpoint returns its secret', async () => {
  const { api, app, endpoint } = await given(' licence.revoked , licence.expired')
  expect(endpoint).toMatchObject({
    id: expect.stringMatching(/^whe_[0-9a-z]{26}$/) as string,
    subscribed_events: 'licence.revoked,licence.expired',
    status: 'enabled',
    created_at: expect.stringMatching(isoTime) as string,
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9_-]{43}$/) as string,
  })
  const { id, url } = endpoint
  const read = (await api.get(endpoint.at)).body
  expect(read).toMatchObject({ id, url, status: 'enabled', disabled_at: null, disabled_reason: null })
  expect(read).not.toHaveProperty('secret')
  expect((await api.get(`${app}/webhook-endpoints`)).body).toEqual({ data: [read], next_cursor: null })
})

test('a delivery has the envelope, the headers, and a signature over the exact bytes', async () => {
  const { appId, endpoint, licence, happen } = await given()
  await happen('suspend')
  const [request] = await endpoint.next(1)
  const envelope = envelopeOf(request!)
  expect(request).toMatchObject({
    method: 'POST',
    headers: {
      'content-type': expect.stringMatching(/^application\/json/) as string,
      'user-agent': expect.stringMatching(/./) as string,
      'webhook-attempt': '1',
      'webhook-id': envelope.id,
    },
  })
  expect(verifies(request!, endpoint.secret)).toBe(true)
  expect(Math.abs(signatureOf(request!).time - Date.now() / 1000)).toBeLessThan(60)
  expect(envelope).toEqual({
    id: expect.stringMatching(/^evt_[0-9a-z]{26}$/) as string,
    type: 'licence.suspended',
    api_version: '2026-11-01',
    created_at: expect.stringMatching(isoTime) as string,
    sequence: expect.any(Number) as number,
    account_id: stack.accountId,
    application_id: appId,
    data: { object: { licence_id: licence.id, status: 'suspended', reason: 'manual' } },
    previous: null,
  })
  const { sequence } = envelope
  expect(await feed(`after=${sequence - 1}&limit=1`)).toEqual({ data: [envelope], next_after: sequence })
})

test('each verb that changes a licence sends one event, in order, and no other event is sent', async () => {
  const { api, app, endpoint, planId, issue, licence, happen } = await given()
  const other = await issue(planId)
  await happen('suspend', 'suspend', 'reactivate', 'revoke', 'revoke', 'retire', 'retire')
  await api.post(`${app}/plans/${planId}/archive`)
  await endpoint.next(5)
  const events = endpoint.events()
  const [licence_id, licence_id_2] = [licence.id, other.id]
  expect(events.map(({ type, data }) => [type, data.object])).toEqual([
    ['licence.suspended', { licence_id, status: 'suspended', reason: 'manual' }],
    ['licence.reactivated', { licence_id, status: 'active' }],
    ['licence.revoked', { licence_id, status: 'revoked' }],
    ['licence.retired', { licence_id, status: 'retired' }],
    ['licence.suspended', { licence_id: licence_id_2, status: 'suspended', reason: 'plan_archived' }],
  ])
  const first = events[0]!.sequence
  expect(events.map(({ sequence }) => sequence - first)).toEqual([0, 1, 2, 3, 4])
})

test('the feed has the account’s events from 1 on without a gap, and for a bound key those of its application', async () => {
  const { api, appId, keyWith, endpoint, happen } = await given()
  await happen('suspend', 'reactivate')
  await endpoint.next(2)
  const all: Envelope[] = []
  for (let after = 0; ;) {
    const { data, next_after } = await feed(`after=${after}&limit=3`)
    all.push(...data)
    expect(next_after).toBe(data.at(-1)?.sequence ?? after)
    if (data.length === 0) break
    after = next_after
  }
  expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, index) => index + 1))
  const { key } = await keyWith({ scopes: ['read'], app_id: appId })
  const ofKey = async (query: string) =>
    (await api.get<Awaited<ReturnType<typeof feed>>>(`/v1/events?${query}`, { key })).body
  const own = await ofKey('after=0')
  expect(own.data).toEqual(all.filter((each) => each.application_id === appId))
  expect(own.data).toHaveLength(2)
  const latest = { data: [], next_after: all.length }
  expect([await feed('after=latest'), await ofKey('after=latest')]).toEqual([latest, latest])
  expect(await feed('after=999999')).toEqual({ data: [], next_after: 999999 })
  for (const after of ['last', '-1', '1.5', ''])
    expectInvalid(await api.get(`/v1/events?after=${after}`), '/after')
  for (const limit of ['0', '201']) expectInvalid(await api.get(`/v1/events?limit=${limit}`), '/limit')
})

test('every endpoint gets the events that it is subscribed to, signed with its own secret', async () => {
  const { endpoint, more, happen } = await given('licence.revoked')
  const [all, both] = [await more('*'), await more('licence.suspended,licence.revoked')]
  await happen('suspend', 'reactivate', 'revoke')
  await all.next(3)
  await both.next(2)
  const [request] = await endpoint.next(1)
  expect([all, both, endpoint].map((each) => each.events().map(({ type }) => type))).toEqual([
    ['licence.suspended', 'licence.reactivated', 'licence.revoked'],
    ['licence.suspended', 'licence.revoked'],
    ['licence.revoked'],
  ])
  expect(verifies(request!, endpoint.secret)).toBe(true)
  expect(verifies(request!, all.secret)).toBe(false)
  const same = all.arrived().find((each) => envelopeOf(each).type === 'licence.revoked')
  expect(same!.body.equals(request!.body)).toBe(true)
})

test('after a rotation the next delivery is signed with the new secret', async () => {
  const { api, endpoint, happen } = await given()
  const rotated = await api.post<{ secret: string }>(`${endpoint.at}/rotate-secret`)
  const secret = expect.stringMatching(/^whsec_[A-Za-z0-9_-]{43}$/) as string
  expect(rotated.status).toBe(200)
  expect(rotated.body).toEqual({ id: endpoint.id, secret })
  await happen('suspend')
  const [request] = await endpoint.next(1)
  expect(verifies(request!, rotated.body.secret)).toBe(true)
  expect(verifies(request!, endpoint.secret)).toBe(false)
})

test('a test event goes only to its endpoint, regardless of subscriptions, and is in the feed like any other event', async () => {
  const { api, appId, endpoint, more, deliveries } = await given('licence.revoked')
  const other = await more('*')
  const sent = await api.post<{ event_id: string }>(`${endpoint.at}/test`)
  expect(sent.status).toBe(202)
  const [request] = await endpoint.next(1)
  const envelope = envelopeOf(request!)
  const event = { id: sent.body.event_id, type: 'webhook.test', application_id: appId, previous: null }
  expect(envelope).toMatchObject({ ...event, data: { object: { ping: true } } })
  expect(verifies(request!, endpoint.secret)).toBe(true)
  expect(await deliveries()).toMatchObject([{ endpoint_id: endpoint.id, event_type: 'webhook.test' }])
  expect(other.arrived()).toEqual([])
  expect((await feed(`after=${envelope.sequence - 1}&limit=1`)).data).toEqual([envelope])
})

test('a deleted endpoint stays listed, gets no more deliveries, and refuses all actions', async () => {
  const { api, endpoint, more, happen, deliveries, replay } = await given()
  receiver.answerWith({ status: 500 })
  await happen('suspend')
  await endpoint.next(1)
  expectStatus(await api.delete(endpoint.at), 204)
  const disabled_at = expect.stringMatching(isoTime) as string
  const disabled = { status: 'disabled', disabled_reason: 'deleted', disabled_at }
  expect((await api.get(endpoint.at)).body).toMatchObject(disabled)
  const [pending] = await deliveries()
  const { id, event_id } = pending!
  expect(pending).toMatchObject({ status: 'failed', next_attempt_at: null })
  for (const answer of [
    await api.delete(endpoint.at),
    await api.post(`${endpoint.at}/rotate-secret`),
    await api.post(`${endpoint.at}/test`),
    await api.post(`${endpoint.at}/recover`, { body: { since: '2026-01-01T00:00:00Z' } }),
    await replay(id),
    await replay(id, endpoint.id),
  ]) {
    expectProblem(answer, 409, 'conflict')
  }
  expectInvalid(await replay(id, unknownId('whe')), '/endpoint_id')
  receiver.answerWith({})
  const witness = await more('*')
  await happen('reactivate')
  await witness.next(1)
  expect(endpoint.arrived()).toHaveLength(1)
  const replayed = await replay(id, witness.id)
  expect(replayed.status).toBe(202)
  expect(replayed.body.id).not.toBe(id)
  const copy = (await witness.next(2)).find((request) => envelopeOf(request).id === event_id)
  expect(copy!.body.equals(endpoint.arrived()[0]!.body)).toBe(true)
  expect(verifies(copy!, witness.secret)).toBe(true)
})

test('a delivery shows the exact payload and every attempt, and a replay adds an attempt', async () => {
  const { api, app, endpoint, happen, deliveries, replay } = await given()
  const headers = { location: receiver.url('/elsewhere') }
  receiver.answerWith({ status: 302, headers, body: 'x'.repeat(3_000) })
  await happen('suspend')
  const [request] = await endpoint.next(1)
  const [row] = await deliveries()
  const one = `${app}/webhook-deliveries/${row!.id}`
  const reads = (expected: object) =>
    eventually(async () => {
      const { body } = await api.get<DeliveryDetail>(one)
      expect(body).toMatchObject(expected)
      return body
    })
  const failed = await reads({
    id: expect.stringMatching(/^dlv_/) as string,
    event_id: envelopeOf(request!).id,
    event_type: 'licence.suspended',
    endpoint_id: endpoint.id,
    status: 'pending',
    attempt_count: 1,
    next_attempt_at: expect.stringMatching(isoTime) as string,
    last_response_code: 302,
    payload: request!.body.toString(),
  })
  const times = { at: expect.stringMatching(isoTime) as string, duration_ms: expect.any(Number) as number }
  const excerpt = { response_code: 302, response_excerpt: 'x'.repeat(1024) }
  expect(failed.attempts).toMatchObject([{ attempt: 1, ...times, ...excerpt }])
  expect(receiver.requests.some(({ path }) => path === '/elsewhere')).toBe(false)

  receiver.answerWith({ status: 204 })
  expect(await replay(row!.id)).toMatchObject({ status: 202, body: { id: row!.id } })
  const [, second] = await endpoint.next(2)
  expect(second!.body.equals(request!.body)).toBe(true)
  expect(second!.headers['webhook-id']).toBe(request!.headers['webhook-id'])
  expect(second!.headers['webhook-attempt']).toBe('2')
  expect(verifies(second!, endpoint.secret)).toBe(true)
  const delivered = { status: 'delivered', attempt_count: 2, next_attempt_at: null, last_response_code: 204 }
  const { attempts } = await reads(delivered)
  expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2])
  expect(await allRows(api, `${one}/attempts`, 1)).toEqual(attempts.toReversed())
  expectStatus(await replay(row!.id), 202)
  await endpoint.next(3)
  for (const id of [unknownId('dlv'), 'x']) {
    expectNotFound(await api.get(`${app}/webhook-deliveries/${id}`))
    expectNotFound(await api.get(`${app}/webhook-deliveries/${id}/attempts`))
    expectNotFound(await replay(id))
  }
})

test('an endpoint that hangs does not delay another, and its attempt ends after 5 seconds', async () => {
  const { api, app, endpoint, more, happen, deliveries } = await given()
  const dead = await more('*')
  receiver.answerWith(({ path }) => (path === dead.path ? 'hang' : {}))
  const startedAt = Date.now()
  await happen('suspend')
  const [request] = await endpoint.next(1)
  expect(request!.arrivedAt - startedAt).toBeLessThan(4_900)
  const row = (await deliveries()).find((each) => each.endpoint_id === dead.id)
  const attempt = await eventually(async () => {
    const { body } = await api.get<DeliveryDetail>(`${app}/webhook-deliveries/${row!.id}`)
    expect(body.attempts).toHaveLength(1)
    return body.attempts[0]!
  })
  expect(attempt).toMatchObject({ response_code: null, error: expect.any(String) as string })
  expect(attempt.duration_ms).toBeGreaterThan(4_500)
  expect(attempt.duration_ms).toBeLessThan(9_500)
})
