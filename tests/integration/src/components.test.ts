import { createHash } from 'node:crypto'
import { create, type DescService } from '@bufbuild/protobuf'
import { timestampNow } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { connectNats } from '@licensing/events/connection'
import { givenProducer } from '@licensing/events/testing/producer'
import { connectTo } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve, type Handlers } from '@licensing/grpc/server'
import { freePort } from '@licensing/local-servers/ports'
import { newEncryptionKey } from '@licensing/local-servers/secrets'
import type { DatabaseService } from '@licensing/local-servers/services'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { BillingService } from '@licensing/proto/billing'
import { CatalogService, type PlanCopy } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import { LicensingService } from '@licensing/proto/licensing'
import { NotifierService } from '@licensing/proto/notifier'
import { RootKeyService } from '@licensing/proto/root-keys'
import { apiClient } from '@licensing/test-support/api-client'
import { createTestDatabase } from '@licensing/test-support/database'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServers, type Servers } from './engine.ts'

let servers: Servers
beforeAll(async () => {
  servers = await startServers()
}, 900_000)
afterAll(() => servers?.[Symbol.asyncDispose]())

const accountId = newId('acct')
const applicationId = newId('app')

/** The number of messages in a stream. */
async function published(stream: string): Promise<number> {
  const nats = await connectNats(servers.natsUrl, 'test', createLogger('test', 'silent'))
  try {
    const jsm = await nats.connection.jetstreamManager()
    return (await jsm.streams.info(stream)).state.messages
  } finally {
    await nats.close()
  }
}

test('catalog alone: a plan is created, sent to licensing and published in an event', async () => {
  const pushed: PlanCopy[] = []
  const rootKeys = implement(RootKeyService, {
    getRootKeys: async () => ({ rootKeys: ['root key'] }),
    rotateRootKey: async () => ({}),
    retireRootKeys: async () => ({}),
  })
  const handlers: Partial<Handlers<typeof LicensingService>> = {
    syncDefinitions: async ({ plans }) => ({ outdatedPlanIds: plans.map(({ planId }) => planId) }),
    syncPlans: async ({ plans }) => {
      pushed.push(...plans)
      return {}
    },
    countActiveLicences: async ({ planIds }) => ({ counts: planIds.map(() => 0n) }),
  }
  await using licensing = await startStub(LicensingService, handlers, rootKeys)
  const apiKey = `lsk_${'k'.repeat(60)}`
  await using catalog = await startComponent('catalog', servers, {
    LICENSING_ADDRESS: licensing.address,
    NOTIFIER_ADDRESS: `127.0.0.1:${await freePort()}`,
    BOOTSTRAP_API_KEY: apiKey,
  })
  const { calls, close } = connectTo(CatalogService, catalog.address)
  const keyHash = createHash('sha256').update(apiKey).digest()
  const principal = await calls.authenticateKey({ keyHash })
  const { id } = await calls.createApplication({ accountId: principal.accountId, name: 'Editor' })
  const plan = await calls.createPlan({
    accountId: principal.accountId,
    applicationId: id,
    fields: { name: 'Pro', code: 'pro' },
  })
  expect(pushed.map((copy) => copy.id)).toContain(plan.id)
  await eventually(async () => expect(await published('CATALOG_EVENTS')).toBeGreaterThan(0))
  close()
  expect(await catalog.process.stop()).toBe('exit code 0')
})

test('licensing alone: it copies the plans before it is ready, and issues without catalog', async () => {
  const planId = newId('pln')
  const catalog = await startStub(CatalogService, {
    getCopyEpoch: async () => ({ epoch: 0n }),
    listPlanCopies: async () => ({
      plans: [{ id: planId, accountId, applicationId, status: 'active', version: 1n }],
      hasMore: false,
    }),
  })
  await using licensing = await startComponent('licensing', servers, { CATALOG_ADDRESS: catalog.address })
  await catalog[Symbol.asyncDispose]()
  const { calls, close } = connectTo(LicensingService, licensing.address)
  const { licence } = await calls.issueLicence({
    accountId,
    applicationId,
    actor: newId('key'),
    idempotencyKey: 'order-1',
    bodyHash: createHash('sha256').update('body').digest(),
    planId,
    fields: { externalRef: 'customer-1' },
  })
  expect(licence).toMatchObject({ status: 'active', planId })
  await calls.suspendLicence({ accountId, licenceId: licence!.id, actor: newId('key') })
  await eventually(async () => expect(await published('LICENSING_EVENTS')).toBeGreaterThan(0))
  close()
  expect(await licensing.process.stop()).toBe('exit code 0')
})

test('notifier alone: an event of the stream becomes a delivery', async () => {
  const [accountId, applicationId] = [newId('acct'), newId('app')]
  await using receiver = await startHttpsReceiver()
  await using catalog = await startStub(CatalogService, {})
  await using notifier = await startComponent('notifier', servers, {
    CATALOG_ADDRESS: catalog.address,
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
    WEBHOOK_CA_FILE: receiver.caFile,
  })
  const { calls, close } = connectTo(NotifierService, notifier.address)
  await calls.createEndpoint({
    accountId,
    applicationId,
    fields: { url: receiver.url(), subscribedEvents: '*' },
  })
  const event = create(EventSchema, {
    id: newId('evt'),
    accountId,
    applicationId,
    occurredAt: timestampNow(),
    payload: { case: 'licenceSuspended', value: { licenceId: newId('lic'), status: 'suspended' } },
  })
  await using licensing = await givenProducer(servers.natsUrlOf('licensing'), 'licensing')
  await licensing.publish([event])
  const [delivery] = await receiver.received(1)
  expect(delivery!.headers['webhook-id']).toBe(event.id)
  const { envelopes } = await calls.listEvents({ accountId, after: 0n, limit: 10 })
  expect(envelopes.map((text) => (JSON.parse(text) as { id: string }).id)).toContain(event.id)
  close()
  expect(await notifier.process.stop()).toBe('exit code 0')
})

test('billing alone: it stores a cap without a processor', async () => {
  await using catalog = await startStub(CatalogService, {
    getAccount: async () => ({ id: accountId, name: 'Vendor', feeBps: 100 }),
  })
  await using licensing = await startStub(LicensingService, {})
  await using billing = await startComponent('billing', servers, {
    CATALOG_ADDRESS: catalog.address,
    LICENSING_ADDRESS: licensing.address,
  })
  const { calls, close } = connectTo(BillingService, billing.address)
  await calls.setSpendCap({ accountId, capMinor: 5_000n, currency: 'usd' })
  expect(await calls.getSpendCap({ accountId })).toMatchObject({ capMinor: 5_000n, paused: false })
  close()
  expect(await billing.process.stop()).toBe('exit code 0')
})

test('the gateway alone: it authenticates with catalog, and is ready while all four services serve', async () => {
  const principal = { actorId: newId('key'), accountId, scopes: ['admin', 'read'] }
  await using catalog = await startStub(CatalogService, {
    authenticateKeys: async ({ keyHashes }) => ({ answers: keyHashes.map(() => ({ principal })) }),
    getAccount: async () => ({ id: accountId, name: 'Vendor', createdAt: timestampNow() }),
  })
  await using licensing = await startStub(LicensingService, {})
  await using billing = await startStub(BillingService, {})
  const notifier = await startStub(NotifierService, {})
  await using folder = await makeTemporaryFolder()
  await using gateway = await startService(
    'gateway',
    {
      HTTP_ADDRESS: `127.0.0.1:${await freePort()}`,
      METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
      CATALOG_ADDRESS: catalog.address,
      LICENSING_ADDRESS: licensing.address,
      BILLING_ADDRESS: billing.address,
      NOTIFIER_ADDRESS: notifier.address,
    },
    folder.path,
  )
  const api = apiClient(gateway.operationsUrl, `lsk_${'k'.repeat(60)}`)
  expect(await api.get('/v1/account')).toMatchObject({ status: 200, body: { id: accountId } })
  for (const path of ['/docs', '/docs/static/swagger-ui.css', '/openapi.json']) {
    expect(await api.get(path)).toMatchObject({ status: 200 })
  }
  await notifier[Symbol.asyncDispose]()
  await eventually(async () => expect((await api.get('/readyz')).status).toBe(503))
  expect((await api.get('/healthz')).status).toBe(200)
  expect(await gateway.stop()).toBe('exit code 0')
})

/** Starts a single service with its own database and NATS. `peers` has the addresses of the other services. */
async function startComponent(service: DatabaseService, servers: Servers, peers: Record<string, string>) {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const database = started.use(await createTestDatabase(servers.postgresUrl))
  const address = `127.0.0.1:${await freePort()}`
  const process = started.use(
    await startService(
      service,
      {
        GRPC_ADDRESS: address,
        METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
        DATABASE_URL: database.url,
        NATS_URL: servers.natsUrlOf(service),
        ENCRYPTION_KEY: newEncryptionKey(),
        ...peers,
      },
      folder.path,
    ),
  )
  const running = started.move()
  return { process, address, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/**
 * Starts a peer of a component: a real gRPC server with the same contract. It refuses calls that are not in `handlers`.
 */
async function startStub<S extends DescService>(
  service: S,
  handlers: Partial<Handlers<S>>,
  ...others: ReturnType<typeof implement>[]
) {
  const refuse = () =>
    Promise.reject(new ServiceError('unavailable', 'the stub does not implement this call'))
  const all = Object.fromEntries(service.methods.map(({ localName }) => [localName, refuse]))
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [implement(service, { ...all, ...handlers }), ...others],
    log: createLogger('stub', 'silent'),
    health: new Health(),
  })
  return { address: `127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop() }
}
