import { createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startProcesses } from '../test/processes.ts'

interface Collected {
  resourceSpans: {
    scopeSpans: {
      spans: {
        name: string
        traceId: string
        parentSpanId?: string
        attributes: { key: string; value: { stringValue?: string; intValue?: number } }[]
      }[]
    }[]
  }[]
}

test('an attempt is a span of the trace that caused its event', async () => {
  const bodies: Collected[] = []
  const collector = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      bodies.push(JSON.parse(Buffer.concat(chunks).toString()) as Collected)
      response.end('{}')
    })
  })
  await once(collector.listen(0, '127.0.0.1'), 'listening')
  const { port } = collector.address() as AddressInfo
  const traceId = randomBytes(16).toString('hex')
  const parent = randomBytes(8).toString('hex')
  {
    await using receiver = await startHttpsReceiver({ status: 202 })
    await using notifiers = await startProcesses({
      receiver,
      count: 1,
      environment: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` },
    })
    const endpointId = await notifiers.register(receiver.url())
    const [event] = await notifiers.happen(1, `00-${traceId}-${parent}-01`)
    await receiver.received(1)
    await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(1))
    // A process sends its remaining spans when it stops.
    await notifiers.processes[0]!.stop()
    const spans = bodies.flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)),
    )
    const span = spans.find(({ name }) => name === 'webhook attempt')
    expect(span).toMatchObject({ traceId, parentSpanId: parent })
    const attributes = new Map(
      span!.attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]),
    )
    expect(attributes.get('webhook.event_id')).toBe(event!.id)
    expect(attributes.get('webhook.endpoint_id')).toBe(endpointId)
    expect(attributes.get('http.response.status_code')).toBe(202)
  }
  collector.close()
})

test('the metrics have the attempts, the age of due deliveries and the days with partitions', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(({ path }) => ({ status: path === '/bad' ? 500 : 200 }))
  await using notifiers = await startProcesses({ receiver, count: 1 })
  await notifiers.register(receiver.url('/good'))
  await notifiers.register(receiver.url('/bad'))
  await notifiers.happen(3)
  const metric = async (name: string) => {
    const response = await fetch(`${notifiers.processes[0]!.operationsUrl}/metrics`)
    const line = (await response.text()).split('\n').find((line) => line.startsWith(`${name} `))
    return Number(line?.split(' ').at(-1))
  }
  await eventually(async () => {
    expect(await metric('webhook_attempts_total{class="delivered",attempt="first"}')).toBe(3)
    expect(await metric('webhook_attempts_total{class="status",attempt="first"}')).toBe(3)
    expect(await metric('webhook_flush_rows_sum')).toBe(6)
  })
  expect(await metric('webhook_duplicate_attempts_total')).toBe(0)
  expect(await metric('webhook_slots_busy{of="all"}')).toBe(0)
  expect(await metric('webhook_oldest_due_seconds{attempt="later"}')).toBe(0)
  expect(await metric('notifier_event_partitions_ahead_days')).toBeGreaterThan(50)
  expect(await metric('notifier_event_partitions_overdue')).toBe(0)
})

test('deliveries whose secret cannot be decrypted wait for a new secret or the old key, and the vendor is alerted once', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifiers = await startProcesses({ receiver, count: 1 })
  const [process] = notifiers.processes
  const rotated = await notifiers.register(receiver.url('/rotated'))
  const restored = await notifiers.register(receiver.url('/restored'))
  const former = process!.environment['ENCRYPTION_KEY']!
  const key = randomBytes(32).toString('base64url')
  await process!.start({ ENCRYPTION_KEY: key })
  await notifiers.register(receiver.url('/well'))
  const { calls, of } = notifiers
  const pathsOf = () => receiver.requests.map(({ path }) => path).toSorted()
  const alerts = async () => (await calls.listAlerts({ ...of, limit: 0, beforeId: '' })).alerts

  await notifiers.happen(2)
  await receiver.received(2)
  expect(pathsOf()).toEqual(['/well', '/well'])
  // The process found that it cannot read the secrets before the deliveries were due.
  await eventually(async () => expect(await alerts()).toHaveLength(2), { timeoutMs: 30_000 })
  for (const alert of await alerts()) {
    expect(alert.kind).toBe('endpoint_failing')
    expect(alert.detail).toContain(`signing secret of the webhook endpoint ${alert.endpointId}`)
    expect(alert.detail).toContain('Rotate the secret')
  }
  expect(new Set((await alerts()).map(({ endpointId }) => endpointId))).toEqual(new Set([rotated, restored]))
  expect(await process!.log()).toContain('secret of an endpoint cannot be decrypted')
  await eventually(async () => {
    const metrics = await (await fetch(`${process!.operationsUrl}/metrics`)).text()
    expect(metrics).toContain('\nwebhook_unreadable_secrets 2\n')
  })

  const { secret } = await calls.rotateSecret({ ...of, endpointId: rotated })
  await receiver.received(4)
  expect(pathsOf()).toEqual(['/rotated', '/rotated', '/well', '/well'])
  for (const { path, headers, body } of receiver.requests) {
    if (path !== '/rotated') continue
    const [, at, signature] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(String(headers['webhook-signature']))!
    expect(createHmac('sha256', secret).update(`${at}.`).update(body).digest('hex')).toBe(signature)
  }

  await process!.start({ ENCRYPTION_KEY: `${key},${former}` })
  await receiver.received(6)
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(6))
  expect(await alerts()).toHaveLength(2)
})
