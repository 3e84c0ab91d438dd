import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { verifies } from './delivery.ts'
import type { Delivery, DeliveryDetail, Endpoint, Envelope } from './delivery.ts'
import { mailServer } from './mailbox.ts'
import { allRows, expectProblem, givenVendor } from './vendor.ts'
import type { Licence } from './vendor.ts'

let stack: Stack
let receiver: HttpsReceiver
const mailbox = mailServer()

beforeAll(async () => {
  receiver = await startHttpsReceiver()
  stack = await startStack({
    receiver,
    environment: {
      WEBHOOK_BACKOFF_SECONDS: '0.1,0.2',
      SWEEP_INTERVAL_SECONDS: '1',
      SMTP_URL: await mailbox.start(),
      ALERT_EMAIL: 'ops@vendor.example',
    },
  })
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
  await mailbox.stop()
})

async function register(app: string, path: string) {
  const made = await stack.api.post<Endpoint & { secret: string }>(`${app}/webhook-endpoints`, {
    body: { url: receiver.url(path), subscribed_events: '*' },
  })
  expect(made.status).toBe(201)
  return made.body
}

const arrivedAt = (path: string) => receiver.requests.filter((request) => request.path === path)

test('a failed delivery is retried until it is accepted, with the same bytes and a new signature', async () => {
  const { api, app, plan, issue, verb } = await givenVendor(stack)
  const endpoint = await register(app, '/flaky')
  receiver.answerWith((request) => {
    if (request.path !== '/flaky') return {}
    return request.headers['webhook-attempt'] === '3' ? {} : { status: 503, body: 'busy' }
  })
  await verb('suspend', (await issue((await plan()).id)).id)
  await eventually(async () => {
    const [row] = await allRows<Delivery>(api, `${app}/webhook-deliveries`)
    expect(row).toMatchObject({ status: 'delivered', attempt_count: 3, last_response_code: 200 })
  })
  const requests = arrivedAt('/flaky')
  expect(requests.map(({ headers }) => headers['webhook-attempt'])).toEqual(['1', '2', '3'])
  for (const request of requests) {
    expect(request.body.equals(requests[0]!.body)).toBe(true)
    expect(request.headers['webhook-id']).toBe(requests[0]!.headers['webhook-id'])
    expect(verifies(request, endpoint.secret)).toBe(true)
  }
})

test('after 12 failed attempts an endpoint is disabled, with one mail, and a new endpoint recovers the missed events', async () => {
  const { api, app, plan, issue, verb } = await givenVendor(stack)
  receiver.answerWith(({ path }) => (path === '/dead' ? { status: 500 } : {}))
  const endpoint = await register(app, '/dead')
  const { id: planId } = await plan()
  const licences = await Promise.all([issue(planId), issue(planId), issue(planId)])
  for (const licence of licences) await verb('suspend', licence.id)
  const at = `${app}/webhook-endpoints/${endpoint.id}`
  await eventually(
    async () =>
      expect((await api.get(at)).body).toMatchObject({
        status: 'disabled',
        disabled_reason: 'retries_exhausted',
      }),
    { intervalMs: 100 },
  )
  const rows = await allRows<Delivery>(api, `${app}/webhook-deliveries`)
  expect(rows.map(({ status, next_attempt_at: next }) => [status, next])).toEqual([
    ['failed', null],
    ['failed', null],
    ['failed', null],
  ])
  const exhausted = rows.filter(({ attempt_count: count }) => count === 12)
  expect(exhausted.length).toBeGreaterThan(0)
  const detail = await api.get<DeliveryDetail>(`${app}/webhook-deliveries/${exhausted[0]!.id}`)
  expect(detail.body.attempts.map(({ attempt }) => attempt).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 12 }, (_, n) => n + 1),
  )
  for (const row of rows) {
    const seen = arrivedAt('/dead').filter(({ headers }) => headers['webhook-id'] === row.event_id)
    expect(seen.length).toBeLessThanOrEqual(12)
  }

  const about = () => mailbox.mails.filter(({ text }) => text.includes(endpoint.id) && /disabled/i.test(text))
  await eventually(() => expect(about()).toHaveLength(1))
  expect(about()[0]?.to).toEqual(['ops@vendor.example'])

  for (const answer of [
    await api.delete(at),
    await api.post(`${at}/rotate-secret`),
    await api.post(`${at}/test`),
    await api.post(`${app}/webhook-deliveries/${rows[0]!.id}/replay`),
  ]) {
    expectProblem(answer, 409, 'conflict')
  }
  const successor = await register(app, '/successor')
  for (const row of rows) {
    const replayed = await api.post<{ id: string }>(`${app}/webhook-deliveries/${row.id}/replay`, {
      body: { endpoint_id: successor.id },
    })
    expect(replayed.status).toBe(202)
    expect(rows.map(({ id }) => id)).not.toContain(replayed.body.id)
  }
  await eventually(() => expect(arrivedAt('/successor')).toHaveLength(3))
  for (const request of arrivedAt('/successor')) {
    expect(verifies(request, successor.secret)).toBe(true)
    const before = arrivedAt('/dead').find(
      ({ headers }) => headers['webhook-id'] === request.headers['webhook-id'],
    )
    expect(request.body.equals(before!.body)).toBe(true)
  }
  await eventually(async () => {
    const delivered = await allRows<Delivery>(
      api,
      `${app}/webhook-deliveries?endpoint=${successor.id}&status=delivered`,
    )
    expect(delivered).toHaveLength(3)
  })
  expect(about()).toHaveLength(1)
})

test('a licence is refused from its end on, then expired by the sweep, with one event', async () => {
  const { api, app, plan, issue, verb, activate } = await givenVendor(stack)
  receiver.answerWith({})
  await register(app, '/expiry')
  const { id: planId } = await plan()
  const ends = new Date(Date.now() + 15_000).toISOString()
  const [active, suspended, revoked, lasting] = [
    await issue(planId, { expires_on: ends }),
    await issue(planId, { expires_on: ends }),
    await issue(planId, { expires_on: ends }),
    await issue(planId, { expires_on: new Date(Date.now() + 3_600_000).toISOString() }),
  ]
  await verb('suspend', suspended.id)
  await verb('revoke', revoked.id)
  const grant = await activate(active)
  expect(grant.status).toBe(201)
  expect(Date.parse(grant.body.expires_at)).toBeLessThanOrEqual(Date.parse(ends))
  const claims = JSON.parse(Buffer.from(grant.body.token.split('.')[1]!, 'base64url').toString()) as {
    exp: number
  }
  expect(claims.exp * 1000).toBeLessThanOrEqual(Date.parse(ends))

  await eventually(() => Date.now() >= Date.parse(ends), { intervalMs: 5 })
  expect(expectProblem(await activate(active), 403, 'licence_refused')).toMatchObject({ reason: 'expired' })
  const refreshed = await api.post(`/v1/activations/${grant.body.activation_id}/refresh`, {
    key: grant.body.token,
    body: { product_version: '1.0', host: 'a.example.com' },
  })
  expect(expectProblem(refreshed, 403, 'licence_refused')).toMatchObject({ reason: 'expired' })

  const status = async ({ id }: Licence) => (await api.get<Licence>(`/v1/licences/${id}`)).body.status
  await eventually(async () => expect(await status(active)).toBe('expired'))
  await eventually(async () => expect(await status(suspended)).toBe('expired'))
  expect(await status(revoked)).toBe('revoked')
  expect(await status(lasting)).toBe('active')
  expect((await api.get(`${app}/plans/${planId}`)).body).toMatchObject({ active_licences: 1 })
  const [last] = await allRows<Record<string, string>>(api, `/v1/licences/${active.id}/history`)
  expect(last).toMatchObject({ type: 'expired', from: 'active', to: 'expired', actor: 'sweep' })

  const expiries = () =>
    arrivedAt('/expiry')
      .map(({ body }) => JSON.parse(body.toString()) as Envelope)
      .filter(({ type }) => type === 'licence.expired')
  await eventually(() => expect(expiries()).toHaveLength(2))
  expect(new Set(expiries().map(({ data }) => data.object['licence_id']))).toEqual(
    new Set([active.id, suspended.id]),
  )
  for (const { data } of expiries()) expect(data.object['status']).toBe('expired')
  for (const verbName of ['suspend', 'reactivate']) {
    expect(expectProblem(await verb(verbName, active.id), 409, 'conflict')).toMatchObject({
      current: 'expired',
    })
  }
  expect((await verb('revoke', active.id)).body).toMatchObject({ status: 'revoked' })
  expect((await verb('retire', suspended.id)).body).toMatchObject({ status: 'retired' })
})
