import { metricsIn, queries } from '@licensing/operations/queries'
import { apiClient } from '@licensing/test-support/api-client'
import { hostAddress } from '@licensing/test-support/docker'
import { fullTest } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import {
  allRows,
  expectProblem,
  expectStatus,
  givenReceiver,
  givenStack,
  givenVendor,
  untilEnd,
} from './vendor.ts'

interface Span {
  service: string
  name: string
  traceId: string
  attributes: Attribute[]
}

interface Attribute {
  key: string
  value: { stringValue?: string; intValue?: number }
}

interface Export {
  resourceSpans: {
    resource: { attributes: Attribute[] }
    scopeSpans: { spans: Omit<Span, 'service'>[] }[]
  }[]
}

/** A collector of OTLP over HTTP that keeps all spans. */
async function startCollector() {
  const spans: Span[] = []
  const exported: string[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      exported.push(text)
      const sent = JSON.parse(text) as Export
      for (const { resource, scopeSpans } of sent.resourceSpans) {
        const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? ''
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) spans.push({ service, ...span })
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  const host = await hostAddress()
  await once(server.listen(0, host), 'listening')
  return {
    spans,
    /** The bodies of all exports. */
    exported,
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

const collector = untilEnd(await startCollector())
const receiver = await givenReceiver()
const stack = await givenStack({
  receiver,
  environment: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, LOG_LEVEL: 'trace' },
})
const { api } = stack
const processes = Object.values(stack.processes).flat()

async function expectNoSecretsInLogs(secrets: string[]): Promise<void> {
  for (const log of await Promise.all(processes.map((each) => each.log()))) {
    for (const secret of secrets) expect(log).not.toContain(secret)
  }
}

const spansOf = (traceId: string) =>
  collector.spans.filter((span) => span.traceId === traceId).map(({ service, name }) => `${service}: ${name}`)

test('a request has one trace from REST over gRPC and NATS to the webhook and one request id in the logs, without secrets', async () => {
  const vendor = await givenVendor(stack)
  const endpoint = await givenEndpoint(vendor, receiver)
  const { id } = await vendor.plan()
  const licence = await vendor.issue(id, { external_ref: 'customer-1' })
  const suspend = (headers: Record<string, string>) =>
    api.post(`/v1/licences/${licence.id}/suspend`, { headers })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`
  const suspended = await suspend({ traceparent, 'x-request-id': 'request-of-the-test' })
  expect(suspended.headers.get('x-request-id')).toBe('request-of-the-test')
  await endpoint.next(1)
  const refusedTraceId = '0af7651916cd43dd8448eb211c80320c'
  const refused = await suspend({
    traceparent: `00-${refusedTraceId}-b7ad6b7169203331-01`,
    'x-request-id': 'request-that-conflicts',
  })
  expectStatus(refused, 409)
  // docs/operations/lost-webhook.md, "3. Where does its trace end?" names the last span.
  await eventually(() => {
    expect(spansOf(traceId)).toEqual(
      expect.arrayContaining([
        'gateway: POST /v1/licences/{licence_id}/suspend',
        'licensing: licensing.v1.LicensingService/SuspendLicence',
        'notifier: webhook attempt',
      ]),
    )
  })
  await eventually(() => {
    const ofGateway = collector.spans.find(
      (span) => span.traceId === refusedTraceId && span.name.startsWith('POST '),
    )
    expect(ofGateway?.attributes).toEqual(
      expect.arrayContaining([
        { key: 'request.id', value: { stringValue: 'request-that-conflicts' } },
        { key: 'http.response.status_code', value: { intValue: 409 } },
      ]),
    )
  })
  expect(spansOf(refusedTraceId)).not.toContain('notifier: webhook attempt')
  expect(await stack.processes.gateway[0]!.log()).toContain('request-of-the-test')
  await expectNoSecretsInLogs([stack.apiKey, endpoint.secret, licence.key, 'customer-1'])
})

fullTest(
  'while the notifier does not run, the trace of a change ends in licensing, and goes on when it runs',
  async () => {
    const vendor = await givenVendor(stack)
    const endpoint = await givenEndpoint(vendor, receiver)
    const licence = await vendor.issue((await vendor.plan()).id)
    const [notifier] = stack.processes.notifier
    const traceId = '0af7651916cd43dd8448eb211c80321c'
    await notifier!.stop()
    const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` }
    expectStatus(await api.post(`/v1/licences/${licence.id}/suspend`, { headers }), 200)
    const attempt = 'notifier: webhook attempt'
    const last = 'licensing: licensing.v1.LicensingService/SuspendLicence'
    await eventually(() => expect(spansOf(traceId)).toContain(last))
    expect(spansOf(traceId)).not.toContain(attempt)
    await notifier!.start()
    await endpoint.next(1)
    await eventually(() => expect(spansOf(traceId)).toContain(attempt))
  },
)

test('logs contain no key and no session of the portal', async () => {
  const gateway = apiClient(stack.gatewayUrl, '')
  const signIn = (body: unknown) => gateway.post('/portal/session', { key: null, body })
  const wrong = `lsk_${'wrong-'.repeat(8)}`
  expectProblem(await signIn({ key: wrong }), 401, 'unauthenticated')
  expectProblem(await signIn(`{"key":"${wrong}`), 400, 'bad_request')
  const signedIn = await signIn({ key: stack.apiKey })
  const [cookie] = signedIn.headers.get('set-cookie')!.split(';')
  const headers = { cookie: cookie!, 'x-requested-with': 'portal' }
  expectStatus(await gateway.get('/v1/account', { key: null, headers }), 200)
  const [process] = stack.processes.gateway
  const last = '"route":"/portal/session","status":400'
  await eventually(async () => expect(await process!.log()).toContain(last))
  const secrets = [stack.apiKey, wrong, cookie!.split('=')[1]!, process!.environment['PORTAL_SESSION_KEY']!]
  for (const secret of secrets) expect(secret.length).toBeGreaterThan(40)
  await expectNoSecretsInLogs(secrets)
})

test('the token of a customer’s session and the licence key that it began with are in no log, trace, metric, event or error', async () => {
  const vendor = await givenVendor(stack)
  const endpoint = await givenEndpoint(vendor, receiver)
  const licence = await vendor.issue((await vendor.plan()).id)
  await vendor.api.patch(vendor.app, { body: { customer_page: { key_sign_in: true, offline_days: 7 } } })
  const made = await api.post<{ url: string }>(`/v1/licences/${licence.id}/customer-sessions`)
  const signIn = () =>
    api.post<{ token: string }>(`${vendor.app}/customer-sessions`, {
      key: null,
      body: { licence_key: licence.key },
    })
  const signedIn = await eventually(async () => {
    const answer = await signIn()
    expectStatus(answer, 201)
    return answer.body.token
  })
  const tokens = [made.body.url.split('#')[1]!, signedIn]
  const unknownActivation = '/v1/customer/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const refusals: string[] = []
  const traceIds = ['0af7651916cd43dd8448eb211c80319d', '0af7651916cd43dd8448eb211c80319e']
  const refuse = async (token: string) => {
    const body = { request: `{"licence_key":"${token}"`, days: 1 }
    for (const answer of [
      await api.delete(unknownActivation, { key: token }),
      await api.post('/v1/customer/offline-activations', { key: token, body }),
      await api.post('/v1/customer/offline-activations', { key: token, body: `{"${token}` }),
      await api.post('/v1/customer/subscription-sessions', { key: token }),
      await api.get('/v1/account', { key: token }),
      await api.get('/v1/customer/licence', { key: `${token}x` }),
    ]) {
      expect(answer.status).toBeGreaterThanOrEqual(400)
      refusals.push(JSON.stringify([answer.body, ...answer.headers]))
    }
  }
  for (const [at, token] of tokens.entries()) {
    const headers = { traceparent: `00-${traceIds[at]}-b7ad6b7169203331-01` }
    expectStatus(await api.get('/v1/customer/licence', { key: token, headers }), 200)
    await refuse(token)
  }
  const { body: grant } = await vendor.activate(licence)
  const removed = await api.delete(`/v1/customer/activations/${grant.activation_id}`, { key: tokens[0]! })
  expectStatus(removed, 204)
  expectStatus(await api.delete(`/v1/licences/${licence.id}/customer-sessions`), 204)
  for (const token of tokens) await refuse(token)
  expectStatus(await vendor.verb('suspend', licence.id), 200)
  await endpoint.next(1)
  await eventually(() => {
    for (const traceId of traceIds) {
      const services = collector.spans.filter((span) => span.traceId === traceId).map((span) => span.service)
      expect(services).toEqual(expect.arrayContaining(['gateway', 'licensing']))
    }
  })
  await expectNoSecretsInLogs([...tokens, licence.key])
  const metrics = processes.map(async ({ environment }) => {
    const answer = await fetch(`http://${environment.METRICS_ADDRESS}/metrics`)
    return answer.text()
  })
  const events = JSON.stringify(endpoint.events())
  for (const text of [...refusals, ...collector.exported, ...(await Promise.all(metrics)), events])
    for (const token of tokens) expect(text).not.toContain(token.slice(0, 40))
})

test('the value of an endpoint’s header is in no log, trace, metric, event or refusal, also if attempts fail', async () => {
  const vendor = await givenVendor(stack)
  const { id: planId } = await vendor.plan()
  const endpoint = await givenEndpoint(vendor, receiver)
  const [value, broken] = ['first', 'broken'].map((name) => `${name}-${'value-'.repeat(8)}`) as [
    string,
    string,
  ]
  const headers = { 'X-Api-Key': value }
  const traceId = '0af7651916cd43dd8448eb211c80319f'
  const traced = { headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` } }
  const change = (body: unknown) => api.patch(endpoint.at, { ...traced, body })
  expectStatus(await change({ headers }), 200)
  const refusals = [
    await change({ headers: { 'X-Api-Key': `${broken}\r\nX: 1` } }),
    await change({ headers: { [`${broken}:`]: value } }),
    await change(`{"headers": {"X-Api-Key": "${broken}"`),
    await change({ headers: { ...headers, 'x-api-key': broken }, url: 'https://10.0.0.1/' }),
  ]
  for (const refusal of refusals) expect(refusal.status).toBeGreaterThanOrEqual(400)
  receiver.answerWith('reset')
  const { id } = await vendor.issue(planId)
  expectStatus(await api.post(`/v1/licences/${id}/suspend`, traced), 200)
  await endpoint.next(1)
  receiver.answerWith({})
  expect(endpoint.arrived()[0]!.headers['x-api-key']).toBe(value)
  await eventually(() => {
    const services = collector.spans.filter((span) => span.traceId === traceId).map((span) => span.service)
    expect(services).toEqual(expect.arrayContaining(['gateway', 'licensing', 'notifier']))
  })
  await expectNoSecretsInLogs([value, broken])
  const metrics = processes.map(async ({ environment }) => {
    const answer = await fetch(`http://${environment.METRICS_ADDRESS}/metrics`)
    return answer.text()
  })
  const texts = [...collector.exported, ...(await Promise.all(metrics)), JSON.stringify(endpoint.events())]
  for (const text of [...texts, ...refusals.map(({ body }) => JSON.stringify(body))]) {
    for (const secret of [value, broken]) expect(text).not.toContain(secret)
  }
})

test('every process serves Prometheus metrics, liveness and readiness', async () => {
  for (const { name, operationsUrl, environment } of processes) {
    const metrics = await fetch(`http://${environment.METRICS_ADDRESS}/metrics`)
    expect(metrics.status, name).toBe(200)
    expect(await metrics.text(), name).toContain('process_cpu_user_seconds_total')
    expect((await fetch(`${operationsUrl}/healthz`)).status, name).toBe(200)
    expect((await fetch(`${operationsUrl}/readyz`)).status, name).toBe(200)
  }
})

test('every metric that the alerts and dashboards of deploy/operations read is served by a process', async () => {
  const served = new Set(['up'])
  for (const { environment } of processes) {
    const metrics = await fetch(`http://${environment.METRICS_ADDRESS}/metrics`)
    for (const [, name = ''] of (await metrics.text()).matchAll(/^# TYPE (\S+) /gm)) served.add(name)
  }
  const missing = queries.flatMap(({ place, query }) =>
    metricsIn(query).flatMap((name) => (served.has(name) ? [] : [`${place}: ${name}`])),
  )
  expect(missing).toEqual([])
})

test('while licensing is unavailable the gateway is not ready and no application is created, and afterwards the request can be repeated', async () => {
  const [licensing] = stack.processes.licensing
  const readiness = async () => (await fetch(`${stack.gatewayUrl}/readyz`)).status
  const named = async () =>
    (await allRows<{ name: string }>(api, '/v1/apps')).filter(({ name }) => name === 'Made once')
  const create = () => api.post('/v1/apps', { body: { name: 'Made once' } })
  await licensing!.stop()
  await eventually(async () => expect(await readiness()).toBe(503))
  const refused = await create()
  expectProblem(refused, 503, 'unavailable')
  expect(refused.headers.get('retry-after')).not.toBeNull()
  await licensing!.start()
  await eventually(async () => expect(await readiness()).toBe(200))
  expect(await named()).toEqual([])
  expectStatus(await create(), 201)
  expect(await named()).toHaveLength(1)
})
