import { fullTest } from '@licensing/test-support/drawn'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { connectTo } from '@licensing/grpc/client'
import { SecretsService } from '@licensing/proto/secrets'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startProcesses } from '../test/processes.ts'
import { expectSigned } from '../test/signature.ts'

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

test('an attempt is a span of the trace that caused its event, and the metrics count it', async () => {
  const bodies: Collected[] = []
  const collector = createServer((request, response) => {
    void json(request).then((body) => {
      bodies.push(body as Collected)
      response.end('{}')
    })
  })
  await once(collector.listen(0, '127.0.0.1'), 'listening')
  const { port } = collector.address() as AddressInfo
  const traceId = randomBytes(16).toString('hex')
  const parent = randomBytes(8).toString('hex')
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(({ path }) => ({ status: path === '/bad' ? 500 : 202 }))
  await using notifiers = await startProcesses({
    receiver,
    count: 1,
    environment: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` },
  })
  const [process] = notifiers.processes
  const good = await notifiers.register(receiver.url('/good'))
  await notifiers.register(receiver.url('/bad'))
  const [event] = await notifiers.happen(1, `00-${traceId}-${parent}-01`)
  await notifiers.happen(2)
  const metric = async (name: string) => {
    const response = await fetch(`${process!.operationsUrl}/metrics`)
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

  // A process sends its remaining spans when it stops.
  await process!.stop()
  collector.close()
  const attempts = bodies
    .flatMap(({ resourceSpans }) => resourceSpans)
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans)
    .filter(({ name }) => name === 'webhook attempt')
    .map(({ attributes, ...span }) => ({
      ...span,
      ...Object.fromEntries(
        attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue] as const),
      ),
    }))
  expect(attempts).toContainEqual(
    expect.objectContaining({
      traceId,
      parentSpanId: parent,
      'webhook.event_id': event!.id,
      'webhook.endpoint_id': good,
      'http.response.status_code': 202,
    }),
  )
})

fullTest(
  'deliveries whose secret cannot be decrypted wait for a new secret or the old key, which can be removed after a re-encryption',
  async () => {
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
      expect(alert.detail).toContain(`the headers of the webhook endpoint ${alert.endpointId}`)
      expect(alert.detail).toContain('Rotate the secret')
    }
    expect(new Set((await alerts()).map(({ endpointId }) => endpointId))).toEqual(
      new Set([rotated, restored]),
    )
    expect(await process!.log()).toContain('the headers of an endpoint cannot be decrypted')
    await eventually(async () => {
      const metrics = await (await fetch(`${process!.operationsUrl}/metrics`)).text()
      expect(metrics).toContain('\nwebhook_unreadable_secrets 2\n')
    })

    const { secret } = await calls.rotateSecret({ ...of, endpointId: rotated })
    await receiver.received(4)
    expect(pathsOf()).toEqual(['/rotated', '/rotated', '/well', '/well'])
    for (const request of receiver.requests) if (request.path === '/rotated') expectSigned(request, secret)

    await process!.start({ ENCRYPTION_KEY: `${key},${former}` })
    await receiver.received(6)
    await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(6))

    // The secrets are encrypted with the new key while the notifier sends.
    const channel = connectTo(SecretsService, process!.environment['GRPC_ADDRESS']!)
    const [answer] = await Promise.all([channel.calls.reEncrypt({}), notifiers.happen(2)])
    expect(answer).toMatchObject({ reEncrypted: 1, unreadable: 0, done: true })
    expect(await channel.calls.reEncrypt({})).toMatchObject({ reEncrypted: 0, done: true })
    channel.close()
    await process!.start({ ENCRYPTION_KEY: key })
    await notifiers.happen(2)
    await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(18))
    // Each vendor was alerted once.
    expect(await alerts()).toHaveLength(2)
  },
)
