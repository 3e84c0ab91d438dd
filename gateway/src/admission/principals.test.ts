import { drawing, drawn } from '@licensing/test-support/drawn'
import { ServiceError } from '@licensing/grpc/errors'
import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { hashOf, startGateway } from '../../test/gateway.ts'
import type { TestGateway } from '../../test/gateway.ts'

/** A gateway in front of a notifier and a catalog that answer. */
async function givenGateway(options: Parameters<typeof startGateway>[0] = {}) {
  const gateway = await startGateway(options)
  gateway.answers.notifier.listEvents = async () => ({ envelopes: [], nextAfter: 0n })
  return gateway
}

/** Pause between two requests of a client that polls for seconds. Without it the requests use a whole core. */
const pauseMs = 20

test('a key is looked up once for many requests, even if they arrive at the same time', async () => {
  await using gateway = await givenGateway()
  const answers = await Promise.all(Array.from({ length: 50 }, () => gateway.api.get('/v1/events')))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  // At most one in 2 seconds, also on a slow machine.
  expect(gateway.calls.filter((name) => name.startsWith('authenticateKey')).length).toBeLessThan(10)
})

test.concurrent('a revoked key is refused within 2 seconds', async () => {
  await using gateway = await givenGateway()
  expect((await gateway.api.get('/v1/events')).status).toBe(200)
  gateway.keys.delete(hashOf(gateway.apiKey))
  await eventually(async () => expect((await gateway.api.get('/v1/events')).status).toBe(401), {
    timeoutMs: 2_000,
  })
})

const throughProxy = (disturb: (proxy: FaultyProxy) => void) => (gateway: TestGateway) => {
  disturb(gateway.toCatalog)
  return () => gateway.toCatalog.flow()
}

/** Catalog answers, but its database is unavailable. Returns the end of this. */
function withoutDatabase({ answers: { catalog } }: TestGateway): () => void {
  const usual = { ...catalog }
  const unavailable = async () => {
    throw new ServiceError('unavailable', 'the database is unavailable')
  }
  Object.assign(catalog, { authenticateKey: unavailable, authenticateKeys: unavailable })
  return () => Object.assign(catalog, usual)
}

const outages: [string, ReturnType<typeof throughProxy>][] = [
  ['is silent', throughProxy((proxy) => proxy.hold())],
  ['refuses connections', throughProxy((proxy) => proxy.refuse())],
  ['is slow by 3 seconds', throughProxy((proxy) => proxy.delay(3_000))],
  ['has no database', withoutDatabase],
]
test.each(drawn(outages, 2))(
  `while catalog %s, a key that it confirmed is accepted until 60 seconds after that, and any other gets 503 (${drawing})`,
  async (_how, begin) => {
    await using gateway = await givenGateway()
    const unknown = gateway.keyWith(['read'])
    const get = (key = gateway.apiKey) => gateway.api.get<{ code: string }>('/v1/events', { key })
    expect((await get()).status).toBe(200)
    const end = begin(gateway)
    let slowestMs = 0
    for (const until = performance.now() + 5_000; performance.now() < until; await sleep(pauseMs)) {
      const askedMs = performance.now()
      expect((await get()).status).toBe(200)
      slowestMs = Math.max(slowestMs, performance.now() - askedMs)
    }
    expect(slowestMs).toBeLessThan(1_500)
    const refused = await get(unknown)
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable'])
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9]/)
    const now = performance.now.bind(performance)
    let aheadMs = 48_000
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs)
    onTestFinished(() => clock.mockRestore())
    expect((await get()).status).toBe(200)
    aheadMs = 60_000
    expect((await get()).status).toBe(503)
    end()
    for (const key of [gateway.apiKey, unknown]) {
      await eventually(async () => expect((await get(key)).status).toBe(200))
    }
  },
)

test('a key that is revoked during an outage is refused within 2 seconds after catalog is back', async () => {
  await using gateway = await givenGateway()
  const key = gateway.keyWith(['read'])
  const get = async () => (await gateway.api.get('/v1/events', { key })).status
  expect(await get()).toBe(200)
  const end = withoutDatabase(gateway)
  gateway.keys.delete(hashOf(key))
  for (const until = performance.now() + 3_000; performance.now() < until; await sleep(pauseMs)) {
    expect(await get()).toBe(200)
  }
  end()
  await eventually(async () => expect(await get()).toBe(401), { timeoutMs: 2_000, intervalMs: pauseMs })
})

test('a key in use is confirmed once in 2 seconds, whatever the number of its requests, so that its last use is recorded', async () => {
  await using gateway = await givenGateway()
  await gateway.api.get('/v1/events')
  const before = gateway.calls.length
  const startedMs = performance.now()
  while (performance.now() - startedMs < 5_000) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => gateway.api.get('/v1/events')))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    await sleep(pauseMs)
  }
  const asked = gateway.calls.slice(before).filter((name) => name.startsWith('authenticateKey')).length
  expect(asked).toBeGreaterThanOrEqual(2)
  expect(asked).toBeLessThanOrEqual(Math.ceil((performance.now() - startedMs) / 2_000))
})

test.concurrent('a key that was refused is not accepted again while the catalog is down', async () => {
  await using gateway = await givenGateway()
  const key = gateway.keyWith(['read'])
  const status = async () => (await gateway.api.get('/v1/events', { key })).status
  expect(await status()).toBe(200)
  gateway.keys.delete(hashOf(key))
  await eventually(async () => expect(await status()).toBe(401))
  await gateway.endCatalog()
  await eventually(async () => expect(await status()).toBe(503))
})

test('the scheme Bearer is accepted in upper and lower case, with exactly one token after it', async () => {
  await using gateway = await givenGateway()
  const status = async (authorization: string) =>
    (await gateway.api.get('/v1/events', { key: null, headers: { authorization } })).status
  expect(await status(`bearer ${gateway.apiKey}`)).toBe(200)
  for (const other of [
    gateway.apiKey,
    `Basic ${gateway.apiKey}`,
    `Bearer ${gateway.apiKey} x`,
    'Bearer',
    'Bearer ',
  ]) {
    expect(await status(other), other).toBe(401)
  }
})

test('a flood of invalid keys causes only a few calls of the catalog, and known keys do not wait for them', async () => {
  await using gateway = await givenGateway({ perKey: 100_000 })
  const { answers, calls, api } = gateway
  const { authenticateKeys } = answers.catalog
  let asking = 0
  let maxAsking = 0
  answers.catalog.authenticateKeys = async (request) => {
    maxAsking = Math.max(maxAsking, (asking += 1))
    await sleep(100)
    asking -= 1
    return authenticateKeys!(request)
  }
  expect((await api.get('/v1/events')).status).toBe(200)
  const before = calls.length
  const askedMs = performance.now()
  const flood = Array.from({ length: 450 }, (_, at) =>
    api.get('/v1/events', { key: `lsk_${String(at).padStart(48, '0')}` }),
  )
  for (let count = 0; count < 30; count += 1) {
    expect((await api.get('/v1/events')).status).toBe(200)
  }
  // A valid key that is used for the first time is found during the flood.
  expect((await api.get('/v1/events', { key: gateway.keyWith(['read']) })).status).toBe(200)
  expect(new Set((await Promise.all(flood)).map(({ status }) => status))).toEqual(new Set([401]))
  const questions = calls.slice(before).filter((name) => name === 'authenticateKeys')
  // Each call takes 100 ms. With a call for each key there would be 450.
  expect(questions.length).toBeLessThan(Math.min(60 + (performance.now() - askedMs) / 100, 225))
  expect(maxAsking).toBe(1)
})

test('if an address has sent too many invalid keys, further invalid keys get 429 and a valid key still works', async () => {
  await using gateway = await givenGateway({ perKey: 20 })
  const { api } = gateway
  const wrong = (from: number, count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, at) =>
        api.get('/v1/events', { key: `lsk_${String(from + at).padStart(48, '0')}` }),
      ),
    )
  await wrong(0, 20)
  const askedMs = performance.now()
  const before = gateway.calls.length
  const refused = wrong(100, 300)
  for (let count = 0; count < 5; count += 1) {
    expect((await api.get('/v1/events', { key: gateway.keyWith(['read']) })).status).toBe(200)
  }
  for (const { status, headers } of await refused) {
    expect(status).toBe(429)
    expect(headers.get('retry-after')).toMatch(/^\d+$/)
  }
  const rounds = Math.ceil((performance.now() - askedMs) / 20) + 1
  const questions = gateway.calls.slice(before).filter((name) => name === 'authenticateKeys')
  expect(questions.length).toBeLessThanOrEqual(rounds)
})
