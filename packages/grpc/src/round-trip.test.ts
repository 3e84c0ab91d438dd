import { Health } from '@licensing/process/health'
import { ProductService } from '@licensing/proto/products'
import { Client, credentials } from '@grpc/grpc-js'
// By their paths, because the package of the tests depends on this one.
import { startFaultyProxy } from '../../../tests/support/src/faulty-proxy.ts'
import { eventually } from '../../../tests/support/src/poll.ts'
import { createSocket } from 'node:dgram'
import { getServers, promises as dns, setServers } from 'node:dns'
import { once } from 'node:events'
import { beforeAll, describe, expect, test } from 'vitest'
import { connectTo } from './client.ts'
import { ServiceError } from './errors.ts'
import { givenServer, keys, shareProcess, testRoundTrips } from './testing/round-trips.ts'

describe('through the network', () => {
  testRoundTrips()
})

test('a client reconnects by itself to a server that was down', async () => {
  const answering = { getSigningKeys: () => Promise.resolve({ jwksJson: '{}' }) }
  await using given = await givenServer(answering)
  await keys(given)
  await given.stop()
  await expect(keys(given)).rejects.toMatchObject({ code: 'unavailable' })
  await using again = await givenServer(answering, given.port)
  expect(again.port).toBe(given.port)
  await eventually(async () => (await keys(given)).jwksJson === '{}')
})

test('replicas that are restarted one right after the other refuse no call', async () => {
  const start = async (port = 0) => {
    const given = await givenServer({ deactivate: () => Promise.resolve({}) }, port)
    given.connection.close()
    return given
  }
  let [one, other] = [await start(), await start()]
  const addresses = [one, other].map(({ port }) => `127.0.0.1:${port}`).join(',')
  const { calls, close } = connectTo(ProductService, `ipv4:///${addresses}`)
  const load = new AbortController()
  let answered = 0
  // The contract does not allow a retry of this RPC.
  const callers = Array.from({ length: 8 }, async () => {
    while (!load.signal.aborted) {
      await calls.deactivate({ activationId: 'act_1', token: 'x' })
      answered += 1
    }
  })
  const done = Promise.all(callers)
  try {
    for (let round = 0; round < 10; round += 1) {
      await eventually(() => answered > round * 100)
      await one.stop()
      one = await start(one.port)
      await other.stop()
      other = await start(other.port)
    }
  } finally {
    load.abort()
    await done.finally(close)
    await one.stop()
    await other.stop()
  }
})

test('calls wait for a server that has just become unreachable; if it stays so, only for the next attempt to connect', async () => {
  await using given = await givenServer({ getSigningKeys: () => Promise.resolve({}) })
  await keys(given)
  await given.stop()
  const took = async () => {
    const startedMs = performance.now()
    await expect(keys(given)).rejects.toMatchObject({ code: 'unavailable' })
    return performance.now() - startedMs
  }
  expect(await took()).toBeLessThan(4_000)
  // The fastest of three, because a busy machine may delay one of them.
  const tries = [await took(), await took(), await took()]
  expect(Math.min(...tries)).toBeLessThan(1_500)
})

test('the standard health service reports the health of the process', async () => {
  const health = new Health()
  let well = true
  health.add('database', () => {
    if (!well) throw new Error('unavailable')
  })
  await using given = await givenServer({}, 0, health)
  const client = new Client(`127.0.0.1:${given.port}`, credentials.createInsecure())
  const check = () =>
    new Promise<number>((resolve, reject) => {
      client.makeUnaryRequest(
        '/grpc.health.v1.Health/Check',
        () => Buffer.alloc(0),
        (bytes: Buffer) => bytes[1] ?? 0,
        {},
        (error, status) => (error ? reject(error) : resolve(status!)),
      )
    })
  expect(await check()).toBe(1)
  well = false
  await eventually(async () => (await check()) === 2)
  client.close()
})

test.each(['conflict', 'not_found', 'plan_archived'] as const)(
  'a call that is repeated because its answer was lost is never refused with %s: the first attempt may have done it',
  async (code) => {
    let attempts = 0
    await using given = await givenServer({
      release: async () => {
        attempts += 1
        if (attempts > 1) throw new ServiceError(code, 'it is retired')
        proxy.reset()
        return {}
      },
      deactivate: async () => Promise.reject(new ServiceError(code, 'it is retired')),
    })
    await using proxy = await startFaultyProxy(`127.0.0.1:${given.port}`)
    const connection = connectTo(ProductService, proxy.address)
    const repeated = connection.calls.release({ activationId: 'act_1', token: 'x' })
    await expect(repeated).rejects.toMatchObject({
      code: 'unavailable',
      message: 'whether this was done is not known, as an answer was lost; now: it is retired',
    })
    expect(attempts).toBe(2)
    const once = connection.calls.deactivate({ activationId: 'act_1', token: 'x' })
    await expect(once).rejects.toMatchObject({ code, message: 'it is retired' })
    connection.close()
  },
)

test('a connection asks no name server for a configuration, so a silent one does not keep a program from ending', async () => {
  let questions = 0
  const nameServer = createSocket('udp4').on('message', (question, { port, address }) => {
    questions += 1
    // The same message as an answer: there is no such name.
    nameServer.send(
      Buffer.concat([question.subarray(0, 2), Buffer.of(0x81, 0x83), question.subarray(4)]),
      port,
      address,
    )
  })
  await once(nameServer.bind(0, '127.0.0.1'), 'listening')
  await using given = await givenServer({ getSigningKeys: () => Promise.resolve({}) })
  const before = getServers()
  setServers([`127.0.0.1:${nameServer.address().port}`])
  try {
    const connection = connectTo(ProductService, `localhost:${given.port}`)
    await connection.calls.getSigningKeys({ applicationId: 'app_1' })
    connection.close()
    await expect(dns.resolveTxt('licensing.test')).rejects.toMatchObject({ code: 'ENOTFOUND' })
    expect(questions).toBe(1)
  } finally {
    setServers(before)
    nameServer.close()
  }
})

test('if a server’s connection becomes silent, calls are unavailable at their deadlines, and within seconds a new connection serves them', async () => {
  await using given = await givenServer({ getSigningKeys: () => Promise.resolve({ jwksJson: '{}' }) })
  await using proxy = await startFaultyProxy(`127.0.0.1:${given.port}`)
  const connection = connectTo(ProductService, proxy.address, { timeoutMs: 1_000 })
  const call = () => connection.calls.getSigningKeys({ applicationId: 'app_1' })
  await call()
  proxy.silence()
  await expect(call()).rejects.toMatchObject({ code: 'unavailable' })
  await eventually(() => call(), { timeoutMs: 15_000 })
  expect(proxy.accepted).toBe(2)
  connection.close()
})

// The last tests of this file, because the process remains one of several programs.
describe('within a process', () => {
  beforeAll(shareProcess)

  testRoundTrips()

  test('a call opens no connection', async () => {
    await using given = await givenServer({ getSigningKeys: () => Promise.resolve({ jwksJson: '{}' }) })
    expect((await keys(given)).jwksJson).toBe('{}')
    expect(process.getActiveResourcesInfo()).not.toContain('TCPSocketWrap')
  })
})
