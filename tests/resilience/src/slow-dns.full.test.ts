import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'

const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000' }

/** A name server that knows one address for every name. */
async function startNameServer() {
  const state = { answers: true, delayMs: 0, asked: 0 }
  const server = createSocket('udp4')
  server.on('message', (query, { port, address }) => {
    state.asked += 1
    if (!state.answers) return
    const end = query.indexOf(0, 12) + 5
    const isIpv4 = query.readUInt16BE(end - 4) === 1
    const head = Buffer.from(query.subarray(0, end))
    // A response without an error, with one answer for IPv4 and none for IPv6.
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(isIpv4 ? 1 : 0, 6)
    head.writeUInt32BE(0, 8)
    const answer = isIpv4 ? Buffer.from('c00c000100010000000100047f000001', 'hex') : Buffer.alloc(0)
    void sleep(state.delayMs).then(() => server.send(Buffer.concat([head, answer]), port, address))
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  const address = `127.0.0.1:${server.address().port}`
  // Node reads the servers of the machine; in this process its resolvers use this one.
  const code = `
    import dns from 'node:dns'
    dns.promises.Resolver = class extends dns.promises.Resolver {
      constructor(options) { super(options); this.setServers(['${address}']) }
    }`
  return {
    state,
    settings: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` },
    [Symbol.asyncDispose]: async () => {
      server.close()
      await once(server, 'close')
    },
  }
}

test('name servers that do not answer, and then late, delay only the deliveries to names that they know, and nothing is lost', async () => {
  await using names = await startNameServer()
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  const [notifier] = stack.processes.notifier
  await notifier!.start(names.settings)
  const byName = {
    ...receiver,
    url: (path?: string) => receiver.url(path).replace('localhost', 'host.docker.internal'),
  }
  const other = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
    body: { url: receiver.url('/other'), subscribed_events: '*' },
  })
  expect(other.status).toBe(201)
  const arrived = (path: string) => receiver.requests.filter((request) => request.path === path)
  await using load = await startLoad(stack, byName)
  names.state.answers = false
  // It forgets the addresses that it has found.
  await notifier!.start()
  const before = arrived('/hook').length
  const others = arrived('/other').length
  await eventually(() => expect(arrived('/other').length).toBeGreaterThan(others + 50))
  expect(arrived('/hook').length).toBe(before)
  await eventually(async () => {
    const metrics = await (await fetch(`${notifier!.operationsUrl}/metrics`)).text()
    expect(metrics).toMatch(/webhook_attempts_total\{class="dns"/)
  })
  Object.assign(names.state, { answers: true, delayMs: 800 })
  await load.more(100)
  await load.stop()
  expect(load.failures).toEqual([])
  await expectNothingLost(stack, byName, load)
  const idsAt = (path: string) => new Set(arrived(path).map(({ headers }) => headers['webhook-id']))
  await eventually(() => expect(idsAt('/hook')).toEqual(idsAt('/other')))
  expect(names.state.asked).toBeGreaterThan(0)
})
