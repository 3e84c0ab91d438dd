import { apiClient } from '@licensing/test-support/api-client'
import { freeAddress } from '@licensing/test-support/free-address'
import { eventually } from '@licensing/test-support/poll'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { createConnection } from 'node:net'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { accountId, appId, applicationDefaults, hashOf, startStandIns } from '../../test/gateway.ts'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte
/** The limit of a gateway's memory in `deploy/kubernetes` and `deploy/compose.yaml`. */
const memoryLimit = 384 * mebibyte

/** A gateway process in front of stand-ins of the services. */
async function givenProcess() {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const standIns = started.use(await startStandIns())
  const { addresses, answers } = standIns
  answers.notifier.listEvents = async () => ({ envelopes: [], nextAfter: 0n })
  answers.billing.receiveProcessorEvent = async () => ({})
  answers.products.activate = async () => ({
    grant: { activationId: 'act_1', licenceId: 'lic_1', token: 't' },
    created: true,
  })
  answers.catalog.createApplication = async ({ name }) => ({ ...applicationDefaults, id: appId, name })
  const address = await freeAddress()
  const process = started.use(
    await startService(
      'gateway',
      {
        HTTP_ADDRESS: address,
        METRICS_ADDRESS: await freeAddress(),
        CATALOG_ADDRESS: addresses.catalog,
        LICENSING_ADDRESS: addresses.licensing,
        BILLING_ADDRESS: addresses.billing,
        NOTIFIER_ADDRESS: addresses.notifier,
        PRODUCT_RATE_PER_MINUTE: '100000',
        RATE_LIMIT_PER_MINUTE: '100000',
        TRUST_PROXY: '1',
      },
      folder.path,
    ),
  )
  const residentBytes = async () => {
    const metrics = await fetch(`http://${process.environment['METRICS_ADDRESS']}/metrics`)
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(await metrics.text())![1])
  }
  const running = started.move()
  return {
    ...standIns,
    port: Number(address.split(':')[1]),
    residentBytes,
    api: apiClient(`http://${address}`, standIns.apiKey),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

interface NeverEnding {
  socket: Socket
  /** The status of its answer, if it has one. */
  status(): number | undefined
  headers(): string
}

/** Begins a request and sends a part of its body in chunks of one byte or larger ones. */
function sendWithoutEnd(
  port: number,
  path: string,
  headers: string[],
  { bytes, chunkBytes }: { bytes: number; chunkBytes: number },
): NeverEnding {
  const socket = createConnection(port, '127.0.0.1')
  let text = ''
  socket.on('error', () => undefined).on('data', (chunk) => (text += chunk.toString()))
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  ]
  socket.write([...head, ...headers, '', ''].join('\r\n'))
  const chunk = `${chunkBytes.toString(16)}\r\n${'x'.repeat(chunkBytes)}\r\n`
  socket.write(chunk.repeat(bytes / chunkBytes))
  return {
    socket,
    status: () => (text === '' ? undefined : Number(text.split(' ', 2)[1])),
    headers: () => text,
  }
}

const activation = {
  licence_key: 'AAAAA-AAAAA-AAAAA-AAAAA-AAAAA',
  fingerprint: 'f',
  host: 'h',
  product_version: '1',
}
const signature = () => `t=${Math.floor(Date.now() / 1000)},v1=${'0a'.repeat(32)}`

/** Requests whose bodies never end. `perCaller` is the number of bodies of one caller that the gateway holds. */
const floods: {
  who: string
  path: string
  headers(at: number, key: string): string[]
  size: { bytes: number; chunkBytes: number }
  perCaller: number
  connections: number
}[] = [
  {
    who: 'products, in chunks of one byte from one address',
    path: '/v1/activations',
    headers: () => ['X-Forwarded-For: 198.51.100.9'],
    size: { bytes: 16 * kibibyte, chunkBytes: 1 },
    perCaller: 64,
    // Reading millions of chunks takes longer on a busy machine than a request may take to arrive.
    connections: 100,
  },
  {
    who: 'a processor with a signature that looks genuine',
    path: '/v1/processors/stripe/events',
    headers: () => [`Stripe-Signature: ${signature()}`, 'X-Forwarded-For: 198.51.100.9'],
    size: { bytes: 256 * kibibyte, chunkBytes: 8 * kibibyte },
    perCaller: 16,
    connections: 400,
  },
  {
    who: 'a vendor',
    path: `/v1/apps/${appId}/licences/import`,
    headers: (_at, key) => [`Authorization: Bearer ${key}`],
    size: { bytes: mebibyte, chunkBytes: 64 * kibibyte },
    perCaller: 8,
    connections: 400,
  },
]

test('hundreds of bodies that never end take a bounded part of the memory, and other calls go on', async () => {
  await using gateway = await givenProcess()
  const { api, keys, keyWith } = gateway
  const otherKey = keyWith(['admin'])
  keys.set(hashOf(otherKey), { ...keys.get(hashOf(otherKey))!, accountId: `${accountId.slice(0, -1)}z` })
  const others = async () => [
    (await api.post('/v1/apps', { key: otherKey, body: { name: 'x' } })).status,
    (await api.post('/v1/activations', { key: null, body: activation })).status,
    (
      await api.post('/v1/processors/stripe/events', {
        key: null,
        headers: { 'stripe-signature': signature() },
        body: { id: 'evt_1' },
      })
    ).status,
  ]
  let maxBytes = 0
  const measure = async () => {
    maxBytes = Math.max(maxBytes, await gateway.residentBytes())
  }
  expect(await others()).toEqual([201, 201, 200])
  for (const { who, path, headers, size, perCaller, connections } of floods) {
    const sent = Array.from({ length: connections }, (_, at) =>
      sendWithoutEnd(gateway.port, path, headers(at, gateway.apiKey), size),
    )
    await eventually(async () => {
      await measure()
      expect(await others(), who).toEqual([201, 201, 200])
      // A buffer can be twice as long as the part that has arrived.
      const held = sent.filter(({ status }) => status() === undefined).length
      expect(held, who).toBeLessThanOrEqual(perCaller)
      expect(held, who).toBeGreaterThanOrEqual(perCaller / 2)
    })
    for (const refused of sent) {
      if (refused.status() === undefined) continue
      expect(refused.headers()).toMatch(/^retry-after: [1-9]/im)
      expect(refused.headers()).toContain('"code":"unavailable"')
    }
    await measure()
    for (const { socket } of sent) socket.destroy()
    // The bytes of given up requests are free again.
    const again = sendWithoutEnd(gateway.port, path, headers(0, gateway.apiKey), size)
    await eventually(async () => {
      const probe = sendWithoutEnd(gateway.port, path, headers(0, gateway.apiKey), size)
      await others()
      probe.socket.destroy()
      expect(probe.status()).toBeUndefined()
    })
    again.socket.destroy()
  }
  expect(maxBytes).toBeLessThan(memoryLimit)
})
