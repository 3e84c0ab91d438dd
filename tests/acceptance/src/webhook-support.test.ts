import { createLicensingBackend } from '@licensing/sdk/backend'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Delivery, Endpoint, Envelope } from './delivery.ts'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Page } from './vendor.ts'

interface Health {
  pending: number
  last_success_at: string | null
  last_failure_at: string | null
  failing_since: string | null
}

interface Alert {
  id: string
  kind: string
  app_id: string | null
  endpoint_id: string | null
  detail: string
  created_at: string
  mailed_at: string | null
}

type Row = Delivery & { licence_id: string | null; created_at: string }

const unknown = (prefix: string) => `${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`

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

/** An application with a licence on a plan, and functions that create endpoints and events. */
async function given() {
  const vendor = await givenVendor(stack)
  const { api, app, plan, issue, verb } = vendor
  const register = async (events = '*') => {
    const path = `/support-${++paths}`
    const made = await api.post<Endpoint>(`${app}/webhook-endpoints`, {
      body: { url: receiver.url(path), subscribed_events: events },
    })
    expect(made.status, JSON.stringify(made.body)).toBe(201)
    const at = `${app}/webhook-endpoints/${made.body.id}`
    return {
      id: made.body.id,
      at,
      arrived: () => receiver.requests.filter((request) => request.path === path),
      health: async () => (await api.get<{ health: Health }>(at)).body.health,
      recover: (body: object) => api.post<{ deliveries: number }>(`${at}/recover`, { body }),
    }
  }
  const { id: planId } = await plan()
  const licence = await issue(planId)
  /** Causes this many events of a licence, one after the other. */
  const happen = async (count: number, of = licence) => {
    for (let i = 0; i < count; i += 1) {
      const { body } = await api.get<{ status: string }>(`/v1/licences/${of.id}`)
      expect((await verb(body.status === 'active' ? 'suspend' : 'reactivate', of.id)).status).toBe(200)
    }
  }
  const deliveries = (query = '') => allRows<Row>(api, `${app}/webhook-deliveries${query && `?${query}`}`, 2)
  const keyWith = async (fields: object) =>
    (await api.post<{ key: string }>('/v1/api-keys', { body: { name: 'support', ...fields } })).body.key
  return { ...vendor, planId, licence, register, happen, deliveries, keyWith }
}

async function eventsOf(api: Stack['api'], appId: string): Promise<(Envelope & { created_at: string })[]> {
  const all: (Envelope & { created_at: string })[] = []
  for (let after = 0; ;) {
    const { body } = await api.get<{ data: typeof all; next_after: number }>(
      `/v1/events?after=${after}&limit=200`,
    )
    all.push(...body.data.filter((event) => event.application_id === appId))
    if (body.data.length === 0) return all
    after = body.next_after
  }
}

test('endpoints and deliveries can be read with admin or read, and changed only with admin', async () => {
  const { api, app, register, happen, deliveries, keyWith } = await given()
  const endpoint = await register()
  await happen(1)
  const [delivery] = await eventually(async () => {
    const rows = await deliveries('status=delivered')
    expect(rows).toHaveLength(1)
    return rows
  })
  const one = `${app}/webhook-deliveries/${delivery!.id}`
  for (const scope of ['read', 'admin']) {
    const key = await keyWith({ scopes: [scope] })
    for (const path of [`${app}/webhook-endpoints`, endpoint.at, `${app}/webhook-deliveries`, one]) {
      expect((await api.get(path, { key })).status, `${scope} ${path}`).toBe(200)
    }
  }
  const reading = await keyWith({ scopes: ['read', 'issue', 'revoke'] })
  const body = { since: '2026-01-01T00:00:00Z' }
  for (const answer of [
    await api.post(`${app}/webhook-endpoints`, { key: reading, body: { url: 'x', subscribed_events: '*' } }),
    await api.post(`${endpoint.at}/rotate-secret`, { key: reading }),
    await api.post(`${endpoint.at}/test`, { key: reading }),
    await api.post(`${endpoint.at}/recover`, { key: reading, body }),
    await api.delete(endpoint.at, { key: reading }),
    await api.post(`${one}/replay`, { key: reading }),
  ]) {
    expectProblem(answer, 403, 'insufficient_scope')
  }
  const writing = await keyWith({ scopes: ['issue', 'revoke'] })
  expectProblem(await api.get(one, { key: writing }), 403, 'insufficient_scope')
  expectProblem(
    await api.get('/v1/alerts', { key: await keyWith({ scopes: ['admin'] }) }),
    403,
    'insufficient_scope',
  )
})

test('deliveries can be filtered by event, licence and time, combined with the other filters', async () => {
  const { api, app, planId, issue, licence, register, happen, deliveries } = await given()
  const [one, two] = [await register(), await register('licence.suspended')]
  await happen(3)
  const other = await issue(planId)
  await happen(1, other)
  expect((await api.post(`${one.at}/test`)).status).toBe(202)
  const all = await eventually(async () => {
    const rows = await deliveries()
    // Four events to the first endpoint, three suspensions to the second, and the test event.
    expect(rows.map(({ status }) => status)).toEqual(Array<string>(8).fill('delivered'))
    return rows
  })
  const fits = async (query: string, wanted: (row: Row) => boolean) =>
    expect(await deliveries(query), query).toEqual(all.filter(wanted))
  const { event_id: event } = all.find(({ endpoint_id: id }) => id === two.id)!
  await fits(`event=${event}`, (row) => row.event_id === event)
  await fits(
    `event=${event}&endpoint=${two.id}`,
    (row) => row.event_id === event && row.endpoint_id === two.id,
  )
  await fits(`licence=${licence.id}`, (row) => row.licence_id === licence.id)
  await fits(
    `licence=${other.id}&type=licence.suspended&status=delivered`,
    (row) => row.licence_id === other.id,
  )
  expect(all.filter((row) => row.licence_id === other.id)).toHaveLength(2)
  expect(all.filter((row) => row.licence_id === null).map(({ event_type: type }) => type)).toEqual([
    'webhook.test',
  ])

  const times = [...new Set(all.map(({ created_at: at }) => at))].toSorted()
  expect(times.length).toBeGreaterThan(2)
  const [first, middle, last] = [times[0]!, times[1]!, times.at(-1)!]
  await fits(`since=${middle}`, (row) => row.created_at >= middle)
  await fits(`until=${middle}`, (row) => row.created_at < middle)
  await fits(`since=${first}&until=${last}`, (row) => row.created_at < last)
  await fits(`since=${last}&until=${first}`, () => false)
  await fits(`since=${encodeURIComponent(middle.replace('Z', '+00:00'))}`, (row) => row.created_at >= middle)

  for (const [name, prefix] of [
    ['event', 'evt'],
    ['licence', 'lic'],
    ['endpoint', 'whe'],
  ] as const) {
    expect(await deliveries(`${name}=${unknown(prefix)}`)).toEqual([])
    expect(await deliveries(`${name}=nonsense`)).toEqual([])
  }
  const at = `${app}/webhook-deliveries`
  for (const bad of [
    'status=lost',
    'since=yesterday',
    'until=2026-13-01T00:00:00Z',
    'since=2026-01-01',
    'until=',
  ]) {
    expectProblem(await api.get(`${at}?${bad}`), 422, 'validation_failed')
  }
  const [row] = all
  expect((await api.get(`${at}/${row!.id}`)).body).toMatchObject({ licence_id: row!.licence_id })
})

test('an endpoint shows its pending deliveries, its last success and failure, and since when it fails', async () => {
  const { api, app, register, happen } = await given()
  const endpoint = await register()
  expect(await endpoint.health()).toEqual({
    pending: 0,
    last_success_at: null,
    last_failure_at: null,
    failing_since: null,
  })
  await happen(1)
  await eventually(async () =>
    expect(await endpoint.health()).toEqual({
      pending: 0,
      last_success_at: expect.stringMatching(isoTime),
      last_failure_at: null,
      failing_since: null,
    }),
  )
  receiver.answerWith({ status: 500 })
  await happen(1)
  const since = await eventually(async () => {
    const { pending, failing_since: at } = await endpoint.health()
    expect(pending).toBe(1)
    expect(at).toMatch(isoTime)
    return at!
  })
  await happen(2)
  await eventually(async () => {
    const health = await endpoint.health()
    expect(health).toMatchObject({ pending: 3, failing_since: since })
    expect(health.last_failure_at! > since).toBe(true)
    expect(health.last_success_at! < since).toBe(true)
  })
  receiver.answerWith({})
  await happen(1)
  await eventually(async () =>
    expect(await endpoint.health()).toMatchObject({ pending: 3, failing_since: null }),
  )
  expect((await api.delete(endpoint.at)).status).toBe(204)
  expect((await endpoint.health()).pending).toBe(0)
  const { body } = await api.get<Page<{ id: string; health: Health }>>(`${app}/webhook-endpoints`)
  expect(body.data.map(({ health }) => health)).toEqual([await endpoint.health()])
})

test('a new endpoint recovers the events that another missed, each exactly once and with the same bytes', async () => {
  const { api, appId, register, happen, deliveries } = await given()
  receiver.answerWith({ status: 500 })
  const dead = await register()
  await happen(4)
  expect((await api.post(`${dead.at}/test`)).status).toBe(202)
  await eventually(() => expect(dead.arrived()).toHaveLength(5))
  receiver.answerWith({})
  const fresh = await register()
  const events = (await eventsOf(api, appId)).filter(({ type }) => type !== 'webhook.test')
  expect(events).toHaveLength(4)
  const [first, second, third] = events.map(({ created_at: at }) => at)

  const some = await fresh.recover({ since: second, until: third })
  expect(some.status).toBe(202)
  expect(some.body).toEqual({ deliveries: 1 })
  const since = first
  expect((await fresh.recover({ since, types: ['licence.revoked'] })).body).toEqual({ deliveries: 0 })
  const atOnce = await Promise.all([
    fresh.recover({ since }),
    fresh.recover({ since }),
    fresh.recover({ since }),
  ])
  expect(atOnce.map(({ body }) => body.deliveries).toSorted((a, b) => a - b)).toEqual([0, 0, 3])
  await eventually(async () =>
    expect(await deliveries(`endpoint=${fresh.id}&status=delivered`)).toHaveLength(4),
  )
  expect((await fresh.recover({ since, until: null, types: null })).body).toEqual({ deliveries: 0 })
  expect(fresh.arrived()).toHaveLength(4)
  const bytes = new Map(
    dead.arrived().map((request) => [request.headers['webhook-id'], request.body.toString()]),
  )
  for (const { headers, body } of fresh.arrived())
    expect(body.toString()).toBe(bytes.get(headers['webhook-id']))
  expect(
    fresh
      .arrived()
      .map(({ headers }) => String(headers['webhook-id']))
      .toSorted(),
  ).toEqual(events.map(({ id }) => id).toSorted())
  // Deliveries that still wait for their next attempt are pending, not missed.
  expect((await dead.recover({ since })).body).toEqual({ deliveries: 0 })
})

test('an invalid recovery is refused and creates no delivery', async () => {
  const { api, appId, register, happen, deliveries } = await given()
  await happen(1)
  // An event that is recorded after the endpoint was created is sent to it, even if it happened before.
  await eventually(async () => expect(await eventsOf(api, appId)).toHaveLength(1))
  const endpoint = await register()
  const since = '2026-01-01T00:00:00Z'
  const refuse = async (body: object, pointer: string) => expectInvalid(await endpoint.recover(body), pointer)
  await refuse({}, '/since')
  await refuse({ since: 'yesterday' }, '/since')
  await refuse({ since, until: since }, '/until')
  await refuse({ since, until: '2025-12-31T23:59:59.999Z' }, '/until')
  await refuse({ since, types: [] }, '/types')
  await refuse({ since, types: ['licence.suspended', 'licence.frozen'] }, '/types/1')
  await refuse({ since, only: true }, '/only')
  expectProblem(
    await api.post(endpoint.at.replace(endpoint.id, unknown('whe')) + '/recover', { body: { since } }),
    404,
    'not_found',
  )
  expect((await api.delete(endpoint.at)).status).toBe(204)
  expectProblem(await endpoint.recover({ since }), 409, 'conflict')
  expect(await deliveries()).toEqual([])
})

test('the sixth failure in a row creates an alert of the application, which no key of another application sees', async () => {
  const { api, appId, register, happen, keyWith } = await given()
  receiver.answerWith({ status: 500 })
  const endpoint = await register()
  await happen(5)
  await eventually(async () => expect((await endpoint.health()).pending).toBe(5))
  const own = await keyWith({ scopes: ['read'], app_id: appId })
  const alerts = (key?: string) => allRows<Alert>(api, '/v1/alerts', 1, key === undefined ? {} : { key })
  expect(await alerts(own)).toEqual([])
  await happen(1)
  const [alert] = await eventually(async () => {
    const rows = await alerts(own)
    expect(rows).toHaveLength(1)
    return rows
  })
  expect(alert).toEqual({
    id: expect.stringMatching(/^alrt_[0-9a-z]{26}$/),
    kind: 'endpoint_failing',
    app_id: appId,
    endpoint_id: endpoint.id,
    detail: expect.stringContaining(endpoint.id),
    created_at: expect.stringMatching(isoTime),
    mailed_at: null,
  })
  await happen(3)
  await eventually(async () => expect((await endpoint.health()).pending).toBe(9))
  expect(await alerts(own)).toEqual([alert])
  expect(await alerts()).toContainEqual(alert)
  const elsewhere = await givenVendor(stack)
  expect(await alerts(await keyWith({ scopes: ['read'], app_id: elsewhere.appId }))).toEqual([])
  expectProblem(await api.get('/v1/alerts?limit=0'), 422, 'validation_failed')
  expectProblem(await api.get('/v1/alerts?cursor=nonsense'), 400, 'bad_request')
})

test('the typed client reads alerts and filtered deliveries row by row', async () => {
  const { appId, licence, register, happen, deliveries } = await given()
  receiver.answerWith({ status: 500 })
  const endpoint = await register()
  await happen(6)
  await eventually(async () => expect(await deliveries(`licence=${licence.id}`)).toHaveLength(6))
  const client = createLicensingBackend({ baseUrl: stack.gatewayUrl, apiKey: stack.apiKey })
  const ids: string[] = []
  const query = { licence: licence.id, since: '2026-01-01T00:00:00Z', limit: 4 }
  for await (const row of client.rows('/v1/apps/{app_id}/webhook-deliveries', {
    path: { app_id: appId },
    query,
  })) {
    expect(row.licence_id).toBe(licence.id)
    ids.push(row.id)
  }
  expect(ids).toEqual((await deliveries(`licence=${licence.id}`)).map(({ id }) => id))
  await eventually(async () => {
    const kinds: string[] = []
    for await (const alert of client.rows('/v1/alerts', { query: { limit: 1 } })) {
      if (alert.endpoint_id === endpoint.id) kinds.push(alert.kind)
    }
    expect(kinds).toEqual(['endpoint_failing'])
  })
  const path = { app_id: appId, endpoint_id: endpoint.id }
  const recovered = await client.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/recover', {
    path,
    body: { since: '2026-01-01T00:00:00Z' },
  })
  expect(recovered).toEqual({ deliveries: 0 })
})
