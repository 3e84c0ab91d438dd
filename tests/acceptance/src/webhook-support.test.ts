import { eventually } from '@licensing/test-support/poll'
import { afterEach, expect, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import type { Delivery, Envelope } from './delivery.ts'
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
import type { Page } from './vendor.ts'

const stack = await givenStack()
const receiver = await givenReceiver()
afterEach(() => receiver.answerWith({}))

interface Health {
  pending: number
  last_success_at: string | null
  last_failure_at: string | null
  failing_since: string | null
}

/** An application with a licence on a plan, and functions that create endpoints and events. */
async function given() {
  const vendor = await givenVendor(stack)
  const { api, app, appId, detail, plan, issue, verb } = vendor
  const { id: planId } = await plan()
  const licence = await issue(planId)
  return {
    ...vendor,
    planId,
    licence,
    register: async (events = '*') => {
      const endpoint = await givenEndpoint(vendor, receiver, events)
      return {
        ...endpoint,
        health: async () => (await api.get<{ health: Health }>(endpoint.at)).body.health,
        recover: (body: object) => api.post<{ deliveries: number }>(`${endpoint.at}/recover`, { body }),
      }
    },
    /** Causes this many events of a licence, one after the other. */
    happen: async (count: number, { id } = licence) => {
      for (let each = 0; each < count; each += 1) {
        const { status } = await detail(id)
        expectStatus(await verb(status === 'active' ? 'suspend' : 'reactivate', id), 200)
      }
    },
    deliveries: (query = '') => allRows<Delivery>(api, `${app}/webhook-deliveries${query && `?${query}`}`, 2),
    /** The events of the application. */
    recorded: async () => {
      const { key } = await vendor.keyWith({ scopes: ['read'], app_id: appId })
      return (await api.get<{ data: Envelope[] }>('/v1/events?limit=200', { key })).body.data
    },
  }
}

test('endpoints and deliveries can be read with admin or read, and changed only with admin', async () => {
  const { api, app, register, happen, deliveries, keyWith } = await given()
  const { at, next } = await register()
  await happen(1)
  await next(1)
  const [delivery] = await deliveries()
  const one = `${app}/webhook-deliveries/${delivery!.id}`
  for (const scope of ['read', 'admin']) {
    const { key } = await keyWith({ scopes: [scope] })
    for (const path of [`${app}/webhook-endpoints`, at, `${app}/webhook-deliveries`, one]) {
      expectStatus(await api.get(path, { key }), 200)
    }
  }
  const { key } = await keyWith({ scopes: ['read', 'issue', 'revoke'] })
  const body = { since: '2026-01-01T00:00:00Z' }
  const { key: writing } = await keyWith({ scopes: ['issue', 'revoke'] })
  const { key: administrating } = await keyWith({ scopes: ['admin'] })
  for (const answer of [
    await api.post(`${app}/webhook-endpoints`, { key, body: { url: 'x', subscribed_events: '*' } }),
    await api.post(`${at}/rotate-secret`, { key }),
    await api.post(`${at}/test`, { key }),
    await api.post(`${at}/recover`, { key, body }),
    await api.delete(at, { key }),
    await api.post(`${one}/replay`, { key }),
    await api.get(one, { key: writing }),
    await api.get('/v1/alerts', { key: administrating }),
  ]) {
    expectProblem(answer, 403, 'insufficient_scope')
  }
})

test('deliveries are listed newest first, by endpoint, type, status, event, licence and time, alone and combined', async () => {
  const { api, app, planId, issue, licence, register, happen, deliveries } = await given()
  const [one, two] = [await register(), await register('licence.suspended')]
  await happen(3)
  const other = await issue(planId)
  await happen(1, other)
  expectStatus(await api.post(`${one.at}/test`), 202)
  const all = await eventually(async () => {
    const rows = await deliveries()
    // Four events to the first endpoint, three suspensions to the second, and the test event.
    expect(rows.map(({ status }) => status)).toEqual(Array<string>(8).fill('delivered'))
    return rows
  })
  expect(all.map(({ created_at: at }) => at)).toEqual(
    all
      .map(({ created_at: at }) => at)
      .toSorted()
      .toReversed(),
  )
  const fits = async (query: string, wanted: (row: Delivery) => boolean) =>
    expect(await deliveries(query), query).toEqual(all.filter(wanted))
  const { event_id: event } = all.find((row) => row.endpoint_id === two.id)!
  await fits('status=delivered', () => true)
  await fits('status=failed', () => false)
  await fits('type=licence.reactivated', (row) => row.event_type === 'licence.reactivated')
  await fits(`type=licence.reactivated&endpoint=${two.id}`, () => false)
  await fits(`endpoint=${two.id}`, (row) => row.endpoint_id === two.id)
  await fits(`event=${event}`, (row) => row.event_id === event)
  await fits(
    `event=${event}&endpoint=${two.id}`,
    (row) => row.event_id === event && row.endpoint_id === two.id,
  )
  await fits(`licence=${licence.id}`, (row) => row.licence_id === licence.id)
  const combined = `licence=${other.id}&type=licence.suspended&status=delivered`
  await fits(combined, (row) => row.licence_id === other.id)
  expect(all.filter((row) => row.licence_id === other.id)).toHaveLength(2)
  const withoutLicence = all.filter((row) => row.licence_id === null)
  expect(withoutLicence).toMatchObject([{ event_type: 'webhook.test' }])

  const times = [...new Set(all.map(({ created_at: at }) => at))].toSorted()
  expect(times.length).toBeGreaterThan(2)
  const [first, middle, last] = [times[0]!, times[1]!, times.at(-1)!]
  await fits(`since=${middle}`, (row) => row.created_at >= middle)
  await fits(`until=${middle}`, (row) => row.created_at < middle)
  await fits(`since=${first}&until=${last}`, (row) => row.created_at < last)
  await fits(`since=${encodeURIComponent(middle.replace('Z', '+00:00'))}`, (row) => row.created_at >= middle)

  for (const [name, prefix] of [
    ['event', 'evt'],
    ['licence', 'lic'],
    ['endpoint', 'whe'],
  ] as const) {
    for (const id of [unknownId(prefix), 'nonsense']) expect(await deliveries(`${name}=${id}`)).toEqual([])
  }
  expectInvalid(await api.get(`${app}/webhook-deliveries?status=lost`), '/status')
  const [row] = all
  expect((await api.get(`${app}/webhook-deliveries/${row!.id}`)).body).toMatchObject({ ...row })
})

test('an endpoint shows its pending deliveries, its last success and failure, and since when it fails', async () => {
  const { api, app, register, happen } = await given()
  const endpoint = await register()
  const becomes = (expected: object) =>
    eventually(async () => {
      const found = await endpoint.health()
      expect(found).toMatchObject(expected)
      return found
    })
  const at = expect.stringMatching(isoTime) as string
  const idle = { pending: 0, last_success_at: null, last_failure_at: null, failing_since: null }
  expect(await endpoint.health()).toEqual(idle)
  await happen(1)
  await becomes({ ...idle, last_success_at: at })
  receiver.answerWith({ status: 500 })
  await happen(1)
  const { failing_since: since, last_failure_at: before } = await becomes({ pending: 1, failing_since: at })
  await happen(2)
  const failing = await eventually(async () => {
    const found = await becomes({ pending: 3, failing_since: since })
    expect(found.last_failure_at! > before!).toBe(true)
    return found
  })
  expect(failing.last_success_at! < since!).toBe(true)
  receiver.answerWith({})
  await happen(1)
  await becomes({ pending: 3, failing_since: null })
  expectStatus(await api.delete(endpoint.at), 204)
  const health = await endpoint.health()
  expect(health.pending).toBe(0)
  const { body } = await api.get<Page<object>>(`${app}/webhook-endpoints`)
  expect(body.data).toMatchObject([{ health }])
})

test('a new endpoint recovers the events that another missed, each exactly once and with the same bytes', async () => {
  const { api, register, recorded, happen, deliveries } = await given()
  receiver.answerWith({ status: 500 })
  const dead = await register()
  await happen(4)
  expectStatus(await api.post(`${dead.at}/test`), 202)
  await dead.next(5)
  receiver.answerWith({})
  const fresh = await register()
  const events = (await recorded()).filter(({ type }) => type !== 'webhook.test')
  expect(events).toHaveLength(4)
  const [since, second, third] = events.map(({ created_at: at }) => at)
  const recovered = async (body: object) => (await fresh.recover(body)).body.deliveries

  const some = await fresh.recover({ since: second, until: third })
  expect(some).toMatchObject({ status: 202, body: { deliveries: 1 } })
  expect(await recovered({ since, types: ['licence.revoked'] })).toBe(0)
  const atOnce = await Promise.all([1, 2, 3].map(() => recovered({ since })))
  expect(atOnce.toSorted((a, b) => a - b)).toEqual([0, 0, 3])
  await eventually(async () =>
    expect(await deliveries(`endpoint=${fresh.id}&status=delivered`)).toHaveLength(4),
  )
  expect(await recovered({ since, until: null, types: null })).toBe(0)
  const contents = (requests: ReturnType<typeof fresh.arrived>) =>
    requests.map(({ body }) => body.toString()).toSorted()
  const missed = dead.arrived().filter(({ body }) => !body.includes('webhook.test'))
  expect(contents(fresh.arrived())).toEqual(contents(missed))
  // Deliveries that still wait for their next attempt are pending, not missed.
  expect((await dead.recover({ since })).body).toEqual({ deliveries: 0 })
})

test('an invalid recovery is refused and creates no delivery', async () => {
  const { api, register, recorded, happen, deliveries } = await given()
  await happen(1)
  // An event that is recorded after the endpoint was created is sent to it, even if it happened before.
  await eventually(async () => expect(await recorded()).toHaveLength(1))
  const endpoint = await register()
  const since = '2026-01-01T00:00:00Z'
  for (const [body, pointer] of [
    [{}, '/since'],
    [{ since: 'yesterday' }, '/since'],
    [{ since, until: since }, '/until'],
    [{ since, types: [] }, '/types'],
    [{ since, types: ['licence.suspended', 'licence.frozen'] }, '/types/1'],
    [{ since, only: true }, '/only'],
  ] as const) {
    expectInvalid(await endpoint.recover(body), pointer)
  }
  const unknown = endpoint.at.replace(endpoint.id, unknownId('whe'))
  expectNotFound(await api.post(`${unknown}/recover`, { body: { since } }))
  expect(await deliveries()).toEqual([])
})

test('the sixth failure in a row creates an alert of the application, which no key of another application sees', async () => {
  const { api, appId, register, happen, keyWith } = await given()
  receiver.answerWith({ status: 500 })
  const endpoint = await register()
  const pending = (count: number) =>
    eventually(async () => expect((await endpoint.health()).pending).toBe(count))
  await happen(5)
  await pending(5)
  const keyOf = async (app_id: string) => (await keyWith({ scopes: ['read'], app_id })).key
  const [own, another] = [await keyOf(appId), await keyOf((await givenVendor(stack)).appId)]
  const alerts = (key = stack.apiKey) => allRows(api, '/v1/alerts', 1, { key })
  expect(await alerts(own)).toEqual([])
  await happen(1)
  const [alert] = await eventually(async () => {
    const rows = await alerts(own)
    expect(rows).toHaveLength(1)
    return rows
  })
  expect(alert).toEqual({
    id: expect.stringMatching(/^alrt_[0-9a-z]{26}$/) as string,
    kind: 'endpoint_failing',
    app_id: appId,
    endpoint_id: endpoint.id,
    detail: expect.stringContaining(endpoint.id) as string,
    created_at: expect.stringMatching(isoTime) as string,
    mailed_at: null,
  })
  await happen(3)
  await pending(9)
  expect(await alerts(own)).toEqual([alert])
  expect(await alerts()).toContainEqual(alert)
  expect(await alerts(another)).toEqual([])
})
