import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { hashOf, startGateway } from '../testing/gateway.ts'

test('a key is looked up once for many requests, also when they come at once', async () => {
  await using gateway = await startGateway()
  gateway.answers.catalog.getAccount = async ({ accountId: id }) => ({ id, name: 'Acme' })
  const answers = await Promise.all(Array.from({ length: 50 }, () => gateway.api.get('/v1/account')))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  // One each second at most, on a machine however slow.
  expect(gateway.calls.filter((name) => name === 'authenticateKey').length).toBeLessThan(10)
})

test('a revoked key is refused within 2 seconds', async () => {
  await using gateway = await startGateway()
  gateway.answers.catalog.getAccount = async ({ accountId: id }) => ({ id, name: 'Acme' })
  expect((await gateway.api.get('/v1/account')).status).toBe(200)
  gateway.keys.delete(hashOf(gateway.apiKey))
  const revokedAt = Date.now()
  await eventually(async () => expect((await gateway.api.get('/v1/account')).status).toBe(401), {
    timeoutMs: 2_000,
  })
  expect(Date.now() - revokedAt).toBeLessThan(2_000)
})

test('while the catalog is unavailable a key that was valid is still accepted, and an unknown one is 503', async () => {
  await using gateway = await startGateway()
  gateway.answers.notifier.listEvents = async () => ({ envelopes: [], nextAfter: 0n })
  expect((await gateway.api.get('/v1/events')).status).toBe(200)
  await gateway.endCatalog()
  const until = Date.now() + 2_500
  while (Date.now() < until) expect((await gateway.api.get('/v1/events')).status).toBe(200)
  const unknown = await gateway.api.get('/v1/events', { key: `lsk_${'0'.repeat(50)}` })
  expect(unknown.status).toBe(503)
  expect(unknown.headers.get('retry-after')).toBeTruthy()
})

test('the name of the scheme counts in any case, and nothing but one token follows it', async () => {
  await using gateway = await startGateway()
  gateway.answers.notifier.listEvents = async () => ({ envelopes: [], nextAfter: 0n })
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
