import { ServiceError } from '@licensing/grpc/errors'
import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { hashOf, startGateway } from '../testing/gateway.ts'

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
  // At most one each second, also on a slow machine.
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

test.concurrent(
  'while the catalog is down, a key that was valid is still accepted, and an unknown key gets 503',
  async () => {
    await using gateway = await givenGateway()
    expect((await gateway.api.get('/v1/events')).status).toBe(200)
    await gateway.endCatalog()
    for (const until = performance.now() + 5_000; performance.now() < until; await sleep(pauseMs)) {
      expect((await gateway.api.get('/v1/events')).status).toBe(200)
    }
    const unknown = await gateway.api.get('/v1/events', { key: `lsk_${'0'.repeat(50)}` })
    expect(unknown.status).toBe(503)
    expect(unknown.headers.get('retry-after')).toBeTruthy()
  },
)

test.concurrent.each([
  ['is silent', (proxy: FaultyProxy) => proxy.hold()],
  ['is cut', (proxy: FaultyProxy) => proxy.refuse()],
  ['is slow by 3 seconds', (proxy: FaultyProxy) => proxy.delay(3_000)],
])(
  'while the connection of one gateway to the catalog %s, a revoked key is refused within 2 seconds, and another key gets 503',
  async (_how, disturb) => {
    await using gateway = await givenGateway()
    const revoked = gateway.keyWith(['read'])
    const get = (key: string) => gateway.api.get<{ code: string }>('/v1/events', { key })
    for (const key of [revoked, gateway.apiKey]) expect((await get(key)).status).toBe(200)
    disturb(gateway.toCatalog)
    gateway.keys.delete(hashOf(revoked))
    const revokedAt = performance.now()
    const accepted: number[] = []
    for (const until = revokedAt + 6_000; performance.now() < until; await sleep(pauseMs)) {
      const sentAfterMs = performance.now() - revokedAt
      const { status } = await get(revoked)
      if (status === 200) accepted.push(sentAfterMs)
      else expect([401, 503]).toContain(status)
    }
    expect(Math.max(0, ...accepted)).toBeLessThan(2_000)
    const other = await get(gateway.apiKey)
    expect([other.status, other.body.code]).toEqual([503, 'unavailable'])
    expect(other.headers.get('retry-after')).toMatch(/^[1-9]/)
    gateway.toCatalog.flow()
    await eventually(async () => expect((await get(gateway.apiKey)).status).toBe(200))
    await eventually(async () => expect((await get(revoked)).status).toBe(401))
  },
)

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

test('while the catalog’s database is unavailable, a key is accepted for 2 seconds and then gets 503', async () => {
  await using gateway = await givenGateway()
  expect((await gateway.api.get('/v1/events')).status).toBe(200)
  const sinceMs = performance.now()
  const unavailable = async () => {
    throw new ServiceError('unavailable', 'the database is unavailable')
  }
  Object.assign(gateway.answers.catalog, { authenticateKey: unavailable, authenticateKeys: unavailable })
  const status = await eventually(async () => {
    const answer = await gateway.api.get('/v1/events')
    expect(answer.status).not.toBe(200)
    return answer.status
  })
  expect(status).toBe(503)
  // Not earlier, so that a short outage has no effect.
  expect(performance.now() - sinceMs).toBeGreaterThan(1_000)
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
  const rounds = Math.ceil((performance.now() - askedMs) / 50) + 1
  const questions = gateway.calls.slice(before).filter((name) => name === 'authenticateKeys')
  expect(questions.length).toBeLessThanOrEqual(rounds)
})
