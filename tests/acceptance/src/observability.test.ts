import { hostAddress } from '@licensing/test-support/docker'
import { startHttpsReceiver, type HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'

interface Span {
  service: string
  name: string
  traceId: string
}

interface Export {
  resourceSpans: {
    resource: { attributes: { key: string; value: { stringValue?: string } }[] }
    scopeSpans: { spans: { name: string; traceId: string }[] }[]
  }[]
}

/** A collector of OTLP over HTTP that keeps all spans. */
async function startCollector() {
  const spans: Span[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const sent = JSON.parse(Buffer.concat(chunks).toString()) as Export
      for (const { resource, scopeSpans } of sent.resourceSpans) {
        const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? ''
        for (const { name, traceId } of scopeSpans.flatMap((scope) => scope.spans))
          spans.push({ service, name, traceId })
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  const host = await hostAddress()
  await once(server.listen(0, host), 'listening')
  return {
    spans,
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

const started = new AsyncDisposableStack()
let collector: Awaited<ReturnType<typeof startCollector>>
let receiver: HttpsReceiver
let stack: Stack
beforeAll(async () => {
  collector = started.use(await startCollector())
  receiver = started.use(await startHttpsReceiver())
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, LOG_LEVEL: 'trace' }
  stack = started.use(await startStack({ receiver, environment }))
})
afterAll(() => started.disposeAsync())

test('a request has one trace from REST over gRPC and NATS to the webhook and one request id in the logs, without secrets', async () => {
  const { api, appId } = stack
  const plan = await api.post<{ id: string }>(`/v1/apps/${appId}/plans`, {
    body: { name: 'Pro', code: 'pro' },
  })
  const endpoint = await api.post<{ secret: string }>(`/v1/apps/${appId}/webhook-endpoints`, {
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  const licence = await api.post<{ id: string; key: string }>(`/v1/apps/${appId}/licences`, {
    headers: { 'idempotency-key': 'order-1' },
    body: { external_ref: 'customer-1', plan_id: plan.body.id },
  })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const suspended = await api.post(`/v1/licences/${licence.body.id}/suspend`, {
    headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01`, 'x-request-id': 'request-of-the-test' },
  })
  expect(suspended.headers.get('x-request-id')).toBe('request-of-the-test')
  await receiver.received(1)

  await eventually(() => {
    const services = new Set(
      collector.spans.filter((span) => span.traceId === traceId).map(({ service }) => service),
    )
    expect([...services].toSorted()).toEqual(expect.arrayContaining(['gateway', 'licensing', 'notifier']))
  })

  const conflict = await api.post(`/v1/licences/${licence.body.id}/suspend`, {
    headers: { 'x-request-id': 'request-that-conflicts' },
  })
  expect(conflict.status).toBe(409)
  const logs = await Promise.all(
    Object.values(stack.processes)
      .flat()
      .map((process) => process.log()),
  )
  const text = logs.join('\n')
  expect(text).toContain('request-of-the-test')
  for (const secret of [stack.apiKey, endpoint.body.secret, licence.body.key, 'customer-1']) {
    expect(text).not.toContain(secret)
  }
})

test('every process serves Prometheus metrics, liveness and readiness', async () => {
  for (const { name, operationsUrl, environment } of Object.values(stack.processes).flat()) {
    const metrics = await fetch(`http://${environment.METRICS_ADDRESS}/metrics`)
    expect(metrics.status, name).toBe(200)
    expect(await metrics.text(), name).toContain('process_cpu_user_seconds_total')
    expect((await fetch(`${operationsUrl}/healthz`)).status, name).toBe(200)
    expect((await fetch(`${operationsUrl}/readyz`)).status, name).toBe(200)
  }
  const readyz = `${stack.gatewayUrl}/readyz`
  await stack.processes.notifier[0]!.kill()
  await eventually(async () => expect((await fetch(readyz)).status).toBe(503))
  await stack.processes.notifier[0]!.start()
  await eventually(async () => expect((await fetch(readyz)).status).toBe(200))
})
