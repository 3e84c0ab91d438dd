import { Health } from '@licensing/process/health'
import { requestContext, withRequestContext } from '@licensing/process/context'
import { createLogger } from '@licensing/process/log'
import { defineProgram } from '@licensing/process/run'
import { ProductService } from '@licensing/proto/products'
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as immediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
// By their paths, because the package of the tests depends on this one.
import { fullTest } from '../../../../tests/support/src/drawn.ts'
import { eventually } from '../../../../tests/support/src/poll.ts'
import { callContext } from '../call-context.ts'
import { connectTo } from '../client.ts'
import { ServiceError } from '../errors.ts'
import { implement, serve } from '../server.ts'
import type { Handlers } from '../server.ts'

const log = createLogger('test', 'silent')

/** A server with these handlers and a client of it. */
export async function givenServer(
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
/** A call without a meaning. */
export const keys = (given: Awaited<ReturnType<typeof givenServer>>) =>
  given.calls.getSigningKeys({ applicationId: 'app_1' })

/** Lets this process run several programs. */
export function shareProcess(): void {
  const settings = () => ({ LOG_LEVEL: 'silent' })
  const program = defineProgram('test', settings, () => Promise.resolve())
  program.launch({ env: {}, logFile: '/dev/null', failed: (reason) => expect.fail(reason) })
}

/** The tests that a call passes through the network and within a process. */
export function testRoundTrips(): void {
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
    const errors = Array.from({ length: 5000 }, (_, at) => ({
      pointer: `/items/${at}`,
      message: 'is missing',
    }))
    await using given = await givenServer(failing(new ServiceError('validation_failed', 'many', { errors })))
    await expect(keys(given)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: errors.slice(0, 100),
    })
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

  test('a message that breaks its schema is internal, and later calls are served', async () => {
    const tooLarge = 2n ** 64n
    await using given = await givenServer({
      getSigningKeys: waitingHandler().getSigningKeys,
      getRevocations: ({ since }) => Promise.resolve({ version: since === undefined ? tooLarge : since }),
    })
    const call = (since?: bigint) =>
      given.calls.getRevocations({ applicationId: 'app_1', since }, { timeoutMs: 100 })
    await expect(call()).rejects.toMatchObject({ name: 'ServiceError', code: 'internal' })
    await expect(call(tooLarge)).rejects.toMatchObject({ name: 'ServiceError', code: 'internal' })
    // Ends after the deadlines of both.
    const last = given.calls.getSigningKeys({ applicationId: 'app_1' }, { timeoutMs: 150 })
    await expect(last).rejects.toMatchObject({ code: 'unavailable' })
    expect((await call(1n)).version).toBe(1n)
  })

  test('calls that are answered at once do not delay timers', async () => {
    await using given = await givenServer({ getSigningKeys: () => Promise.resolve({}) })
    let isDue = false
    setTimeout(() => (isDue = true), 1)
    const untilMs = performance.now() + 1_000
    while (!isDue && performance.now() < untilMs) await keys(given)
    expect(isDue).toBe(true)
  })

  test('a call ends at its deadline, and the handler is notified', async () => {
    const { getSigningKeys, aborted } = waitingHandler()
    await using given = await givenServer({ getSigningKeys })
    const startedMs = performance.now()
    const call = given.calls.getSigningKeys({ applicationId: 'app_1' }, { timeoutMs: 100 })
    await expect(call).rejects.toMatchObject({ code: 'unavailable' })
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    await aborted
  })

  test('a handler that sees a call whose caller has given up before is notified', async () => {
    let waiting = 0
    await using given = await givenServer({
      getSigningKeys: () =>
        new Promise<object>((resolve) => {
          waiting += 1
          callContext()!.signal.addEventListener('abort', () => {
            waiting -= 1
            resolve({})
          })
        }),
      release: () => Promise.resolve({}),
    })
    const call = (options: { timeoutMs?: number; signal?: AbortSignal }) =>
      given.calls.getSigningKeys({ applicationId: 'app_1' }, options)
    const controller = new AbortController()
    const calls = [
      call({ signal: AbortSignal.abort(), timeoutMs: 300 }),
      call({ timeoutMs: 0 }),
      call({ signal: controller.signal, timeoutMs: 300 }),
    ]
    const ended = calls.map((each) => expect(each).rejects.toMatchObject({ code: 'unavailable' }))
    controller.abort()
    await Promise.all(ended)
    // Calls arrive in their order.
    await given.calls.release({ activationId: 'act_1', token: 'x' })
    await eventually(() => waiting === 0)
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
    let isStopped = false
    const stopped = given.stop().then(() => (isStopped = true))
    await immediate()
    expect(isStopped).toBe(false)
    release.resolve()
    expect((await call).jwksJson).toBe('finished')
    await stopped
  })

  fullTest(
    'a server stops within ten seconds although a handler never answers',
    async () => {
      const entered = Promise.withResolvers<AbortSignal>()
      await using given = await givenServer({
        deactivate: () => {
          entered.resolve(callContext()!.signal)
          return new Promise(() => undefined)
        },
      })
      const call = given.calls.deactivate({ activationId: 'act_1', token: 'x' }, { timeoutMs: 60_000 })
      const stopped = entered.promise.then(() => given.stop())
      await expect(call).rejects.toMatchObject({ code: 'unavailable' })
      await stopped
      const signal = await entered.promise
      await eventually(() => signal.aborted)
    },
    20_000,
  )

  test('a handler does not see the context of its caller', async () => {
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    await using given = await givenServer({
      getSigningKeys: () => {
        seen.push(storage.getStore())
        return Promise.resolve({})
      },
    })
    await storage.run('of the caller', () => keys(given))
    expect(seen).toEqual([undefined])
  })
}
