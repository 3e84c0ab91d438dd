import { fullTest } from '@licensing/test-support/drawn'
import { apiClient } from '@licensing/test-support/api-client'
import { startFaultyProxy, type FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { freePort } from '@licensing/local-servers/ports'
import { eventually } from '@licensing/test-support/poll'
import { startService } from '@licensing/test-support/process'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'

/** The pause between two requests of a client. Without it the requests would use the whole machine for seconds. */
const pauseMs = 20

let stack: Stack
beforeAll(async () => {
  stack = await startStack()
})
afterAll(() => stack?.[Symbol.asyncDispose]())

async function givenKey() {
  const body = { name: 'leaked', scopes: ['read'] }
  const made = await stack.api.post<{ id: string; key: string }>('/v1/api-keys', { body })
  expect(made.status).toBe(201)
  return made.body
}

/** Another gateway, which connects to catalog through a faulty proxy. */
async function givenGateway() {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const { environment } = stack.processes.gateway[0]!
  const toCatalog = started.use(await startFaultyProxy(environment['CATALOG_ADDRESS']!))
  const own = {
    HTTP_ADDRESS: `127.0.0.1:${await freePort()}`,
    METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
    CATALOG_ADDRESS: toCatalog.address,
  }
  const gateway = started.use(await startService('gateway', { ...environment, ...own }, folder.path))
  const running = started.move()
  const api = apiClient(gateway.operationsUrl, stack.apiKey)
  return { toCatalog, api, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

const faults: [string, (proxy: FaultyProxy) => void][] = [
  ['silent', (proxy) => proxy.hold()],
  ['cut', (proxy) => proxy.refuse()],
  ['slow by 3 seconds', (proxy) => proxy.delay(3_000)],
]

fullTest.concurrent.each(faults)(
  'a gateway whose connection to catalog is %s accepts the keys that it knows, and refuses a revoked one when the connection works again',
  async (_fault, disturb) => {
    await using gateway = await givenGateway()
    const { api, toCatalog } = gateway
    const { id, key } = await givenKey()
    const get = async () => (await api.get('/v1/events', { key })).status
    await eventually(async () => expect(await get()).toBe(200))
    disturb(toCatalog)
    expect((await stack.api.delete(`/v1/api-keys/${id}`)).status).toBe(204)
    // The gateway of the stack reaches catalog.
    await eventually(async () => expect((await stack.api.get('/v1/events', { key })).status).toBe(401), {
      timeoutMs: 2_000,
    })
    for (const until = performance.now() + 6_000; performance.now() < until; await sleep(pauseMs)) {
      expect(await get()).toBe(200)
    }
    toCatalog.flow()
    await eventually(async () => expect(await get()).toBe(401))
    await eventually(async () => expect((await api.get('/v1/account')).status).toBe(200))
  },
)

test('licences are issued through a gateway while catalog is down', async () => {
  const { api, appId } = stack
  const plan = await api.post<{ id: string }>(`/v1/apps/${appId}/plans`, {
    body: { name: 'Pro', code: 'pro' },
  })
  const issue = async (reference: string) => {
    const answer = await api.post(`/v1/apps/${appId}/licences`, {
      body: { plan_id: plan.body.id, external_ref: reference },
      headers: { 'idempotency-key': reference },
    })
    return answer.status
  }
  expect(await issue('before')).toBe(201)
  const [catalog] = stack.processes.catalog
  await catalog!.kill()
  // Longer than the 2 seconds for which the gateway accepts a key that catalog does not confirm.
  const endsAt = performance.now() + 6_000
  for (let at = 0; performance.now() < endsAt; at += 1) {
    expect(await issue(`during-${at}`)).toBe(201)
    await sleep(pauseMs)
  }
  await catalog!.start()
  const made = await eventually(() => givenKey())
  expect((await api.get('/v1/events', { key: made.key })).status).toBe(200)
})
