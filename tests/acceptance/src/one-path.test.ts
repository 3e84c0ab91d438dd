import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { ReceivedRequest } from '@licensing/test-support/https-receiver'
import { sharedStack } from '@licensing/test-support/shared-stack'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { expect, test } from 'vitest'

/** Verifies the signature over the raw bytes of a delivery and parses it, as a vendor's backend does. */
function openDelivery(request: ReceivedRequest, secret: string): Record<string, unknown> {
  const header = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(request.headers['webhook-signature']))
  expect(header).not.toBeNull()
  const [, time, signature] = header!
  expect(Math.abs(Date.now() / 1000 - Number(time))).toBeLessThan(300)
  const expected = createHmac('sha256', secret).update(`${time}.`).update(request.body).digest()
  expect(timingSafeEqual(expected, Buffer.from(signature!, 'hex'))).toBe(true)
  return JSON.parse(request.body.toString()) as Record<string, unknown>
}

test('from an application and a key to a suspended licence, and the vendor hears of it in a signed event', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await sharedStack()
  const { api, accountId } = stack

  const app = await api.post<{ id: string }>('/v1/apps', { body: { name: 'Editor' } })
  expect(app.status).toBe(201)
  const appId = app.body.id
  const key = await api.post<{ key: string; id: string }>('/v1/api-keys', {
    body: { name: 'backend', scopes: ['admin', 'read', 'issue', 'revoke'], app_id: appId },
  })
  expect(key.status).toBe(201)
  const backend = { key: key.body.key }

  for (const body of [
    { key: 'export', kind: 'feature' },
    { key: 'projects', kind: 'limit', display_name: 'Projects', default: '3' },
  ]) {
    const defined = await api.post(`/v1/apps/${appId}/entitlement-defs`, { body, ...backend })
    expect(defined.status).toBe(201)
    expect(defined.body).toMatchObject({ display_name: body.key, default: 'false', ...body })
  }
  const plan = await api.post<{ id: string; entitlements: unknown[] }>(`/v1/apps/${appId}/plans`, {
    body: { name: 'Pro', code: 'pro', entitlements: [{ key: 'export', value: 'true' }] },
    ...backend,
  })
  expect(plan.status).toBe(201)
  expect(plan.body).toMatchObject({ name: 'Pro', code: 'pro', status: 'active', active_licences: 0 })
  expect(plan.body.entitlements).toHaveLength(1)

  const endpoint = await api.post<{ id: string; secret: string }>(`/v1/apps/${appId}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
    ...backend,
  })
  expect(endpoint.status).toBe(201)

  const issue = () =>
    api.post<{ id: string; key: string; status: string }>(`/v1/apps/${appId}/licences`, {
      headers: { 'idempotency-key': 'order-1' },
      body: { external_ref: 'customer-1', plan_id: plan.body.id },
      ...backend,
    })
  const licence = await issue()
  expect(licence.status).toBe(201)
  expect(licence.body.status).toBe('active')
  const again = await issue()
  expect(again.status).toBe(201)
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect(again.body).toEqual(licence.body)

  const detail = await api.get(`/v1/licences/${licence.body.id}`, backend)
  expect(detail.body).toMatchObject({
    entitlements: [
      { key: 'export', kind: 'feature', value: 'true' },
      { key: 'projects', kind: 'limit', value: '3' },
    ],
    activations: [],
    call_home: [],
    legacy_key: null,
  })

  const suspended = await api.post(`/v1/licences/${licence.body.id}/suspend`, backend)
  expect(suspended.status).toBe(200)
  expect(suspended.body).toMatchObject({ status: 'suspended', status_reason: 'manual' })

  const [delivery] = await receiver.received(1)
  expect(delivery!.method).toBe('POST')
  expect(delivery!.headers['content-type']).toMatch(/^application\/json/)
  const event = openDelivery(delivery!, endpoint.body.secret)
  expect(delivery!.headers['webhook-id']).toBe(event.id)
  expect(event).toEqual({
    id: expect.stringMatching(/^evt_[0-9a-z]{26}$/) as string,
    type: 'licence.suspended',
    api_version: '2026-11-01',
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
    sequence: 1,
    account_id: accountId,
    application_id: appId,
    data: { object: { licence_id: licence.body.id, status: 'suspended', reason: 'manual' } },
    previous: null,
  })
  expect((await api.get(`/v1/apps/${appId}/plans/${plan.body.id}`, backend)).body).toMatchObject({
    active_licences: 0,
  })
  const feed = await api.get<{ data: unknown[]; next_after: number }>('/v1/events?after=0', backend)
  expect(feed.body).toEqual({ data: [event], next_after: 1 })
})
