import { Health } from '@licensing/process/health'
import { requestContext, withRequestContext } from '@licensing/process/context'
import { createLogger } from '@licensing/process/log'
import { ProductService } from '@licensing/proto/products'
import { Client, credentials } from '@grpc/grpc-js'
// By their paths, because the package of the tests depends on this one.
import { startFaultyProxy } from '../../../tests/support/src/faulty-proxy.ts'
import { eventually } from '../../../tests/support/src/poll.ts'
import { createSocket } from 'node:dgram'
import { getServers, promises as dns, setServers } from 'node:dns'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { callContext } from './call-context.ts'
import { connectTo } from './client.ts'
import { ServiceError } from './errors.ts'
import { implement, serve } from './server.ts'
import type { Handlers } from './server.ts'

const log = createLogger('test', 'silent')

async function givenServer(
  handlers: Partial<Handlers<typeof ProductService>>,
  port = 0,
  health = new Health(),
) {
  const unexpected = () => Promise.reject(new Error('not expected'))
  const all = Object.fromEntries(ProductService.methods.map(({ localName }) => [localName, unexpected]))
  const server = await serve({
    address: { host: '127.0.0.1', port },
    services: [implement(ProductService, { ...all, ...handlers } as Handlers<typeof ProductService>)],
    log,
    health,
    isUnavailable: (error) => error instanceof Error && error.message === 'database unavailable',
  })
  const connection = connectTo(ProductService, `127.0.0.1:${server.port}`)
  return {
    port: server.port,
    calls: connection.calls,
    connection,
    stop: () => server.stop(),
    [Symbol.asyncDispose]: async () => {
      connection.close()
      await server.stop()
    },
  }
}

const failing = (error: unknown) => ({ getSigningKeys: () => Promise.reject(error) })
const keys = (given: Awaited<ReturnType<typeof givenServer>>) =>
  given.calls.getSigningKeys({ applicationId: 'app_1' })

test('a request and its answer keep their types, absent fields and numbers', async () => {
  await using given = await givenServer({
    getRevocations: (request) =>
      Promise.resolve({
        version: (request.since ?? -1n) + 1n,
        json: Buffer.from('{}'),
        ...(request.ifNoneMatch !== undefined && { etag: request.ifNoneMatch }),
      }),
  })
  const answer = await given.calls.getRevocations({ applicationId: 'app_1', since: 41n })
  expect(answer).toMatchObject({ version: 42n, notModified: false })
  expect(Buffer.from(answer.json).toString()).toBe('{}')
  expect((await given.calls.getRevocations({ applicationId: 'app_1' })).version).toBe(0n)
})

test('an error of the catalogue arrives with its code, text, fields and members', async () => {
  const sent = new ServiceError('validation_failed', 'two fields are wrong', {
    errors: [
      { pointer: '/name', message: 'is ümläut' },
      { pointer: '/a~1b', message: 'is missing' },
    ],
    members: { current: 'suspended', allowed: ['revoke', 'retire'] },
  })
  await using given = await givenServer(failing(sent))
  const caught = await keys(given).catch((error: unknown) => error)
  expect(caught).toBeInstanceOf(ServiceError)
  expect(caught).toMatchObject({
    code: 'validation_failed',
    message: 'two fields are wrong',
    errors: sent.errors,
    members: sent.members,
  })
})

test('an error with thousands of fields does not break the stream', async () => {
  const errors = Array.from({ length: 5000 }, (_, at) => ({ pointer: `/items/${at}`, message: 'is missing' }))
  await using given = await givenServer(failing(new ServiceError('validation_failed', 'many', { errors })))
  await expect(keys(given)).rejects.toMatchObject({ code: 'validation_failed', errors: errors.slice(0, 100) })
})

test('an outage of a dependency is answered with unavailable, any other error with internal, without its text', async () => {
  await using outage = await givenServer(failing(new Error('database unavailable')))
  await expect(keys(outage)).rejects.toMatchObject({ code: 'unavailable' })
  await using given = await givenServer(failing(new Error('select secret from table at 10.0.0.1')))
  await expect(keys(given)).rejects.toMatchObject({ code: 'internal' })
  await expect(keys(given)).rejects.not.toThrow(/secret/)
})

/** A handler that ends when its caller no longer waits. */
function waitingHandler() {
  const aborted = Promise.withResolvers<void>()
  const getSigningKeys = () =>
    new Promise<object>((resolve) => {
      callContext()!.signal.addEventListener('abort', () => {
        aborted.resolve()
        resolve({})
      })
    })
  return { getSigningKeys, aborted: aborted.promise }
}

test('a call ends at its deadline, and the handler is notified', async () => {
  const { getSigningKeys, aborted } = waitingHandler()
  await using given = await givenServer({ getSigningKeys })
  const startedMs = performance.now()
  const call = given.calls.getSigningKeys({ applicationId: 'app_1' }, { timeoutMs: 100 })
  await expect(call).rejects.toMatchObject({ code: 'unavailable' })
  expect(performance.now() - startedMs).toBeLessThan(10_000)
  await aborted
})

test('when a caller gives up, calls that were made for its call are cancelled too', async () => {
  const { getSigningKeys, aborted } = waitingHandler()
  await using far = await givenServer({ getSigningKeys })
  await using near = await givenServer({ getSigningKeys: () => keys(far) })
  const controller = new AbortController()
  const call = near.calls.getSigningKeys({ applicationId: 'app_1' }, { signal: controller.signal })
  setTimeout(() => controller.abort(), 50)
  await expect(call).rejects.toMatchObject({ code: 'unavailable' })
  await aborted
})

test('the request id and the account are passed on', async () => {
  const seen: unknown[] = []
  await using given = await givenServer({
    getSigningKeys: () => {
      seen.push(requestContext())
      return Promise.resolve({})
    },
  })
  await withRequestContext({ requestId: 'req-1', accountId: 'acct_1' }, () => keys(given))
  expect(seen).toEqual([{ requestId: 'req-1', accountId: 'acct_1' }])
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

test('a running call is answered when the server stops', async () => {
  const release = Promise.withResolvers<void>()
  const entered = Promise.withResolvers<void>()
  await using given = await givenServer({
    getSigningKeys: async () => {
      entered.resolve()
      await release.promise
      return { jwksJson: 'finished' }
    },
  })
  const call = keys(given)
  await entered.promise
  const stopped = given.stop()
  release.resolve()
  expect((await call).jwksJson).toBe('finished')
  await stopped
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
