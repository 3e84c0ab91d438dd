import { apiClient } from '@licensing/test-support/api-client'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startLicensing, type RunningLicensing } from './start-licensing.ts'

const ways: RunningLicensing['on'][] =
  process.env['TEST_DOCKER'] === '1' ? ['containers', 'processes'] : ['processes']

test.each(ways)(
  'one line starts the whole on %s, it can be used, and its webhooks reach a receiver here',
  async (on) => {
    await using receiver = await startHttpsReceiver({}, on)
    await using licensing = await startLicensing({ on, environment: { WEBHOOK_CA_FILE: receiver.caFile } })
    process.stdout.write(`the whole runs on ${licensing.on}\n`)
    const api = apiClient(licensing.url, licensing.apiKey)
    expect(await api.get('/readyz')).toMatchObject({ status: 200 })
    const app = `/v1/apps/${licensing.appId}`
    const endpoint = await api.post(`${app}/webhook-endpoints`, {
      body: { url: `https://${licensing.host}:${receiver.port}/hook`, subscribed_events: '*' },
    })
    expect(endpoint.status, JSON.stringify(endpoint.body)).toBe(201)
    const definition = { key: 'export', kind: 'feature' }
    expect(await api.post(`${app}/entitlement-defs`, { body: definition })).toMatchObject({ status: 201 })
    const plan = await api.post<{ id: string }>(`${app}/plans`, {
      body: { name: 'Pro', code: 'pro', entitlements: [{ key: 'export', value: 'true' }] },
    })
    expect(plan.status).toBe(201)
    const licence = await api.post<{ id: string; key: string }>(`${app}/licences`, {
      headers: { 'idempotency-key': 'order-1' },
      body: { external_ref: 'customer-1', plan_id: plan.body.id },
    })
    expect(licence.status).toBe(201)
    const activation = await api.post('/v1/activations', {
      key: null,
      body: {
        licence_key: licence.body.key,
        fingerprint: 'machine-1',
        host: 'shop.example.com',
        product_version: '1.0.0',
      },
    })
    expect(activation.status).toBe(201)
    expect(await api.post(`${app}/plans/${plan.body.id}/archive`)).toMatchObject({ status: 200 })
    const detail = await api.get(`/v1/licences/${licence.body.id}`)
    expect(detail.body).toMatchObject({ status: 'suspended', status_reason: 'plan_archived' })
    // Through the outbox, NATS and the notifier.
    await eventually(async () => {
      const { body } = await api.get<{ data: { type: string; sequence: number }[] }>('/v1/events?after=0')
      expect(body.data).toMatchObject([{ type: 'licence.suspended', sequence: 1 }])
    })
    const [delivery] = await receiver.received(1)
    expect(JSON.parse(String(delivery?.body))).toMatchObject({ type: 'licence.suspended', sequence: 1 })
  },
)
