import type { DescService } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { BillingService } from '@licensing/proto/billing'
import { CatalogService } from '@licensing/proto/catalog'
import type { Scope } from '@licensing/proto/closed-sets'
import { closedSets } from '@licensing/proto/closed-sets'
import { CustomerService } from '@licensing/proto/customers'
import { LicensingService } from '@licensing/proto/licensing'
import { NotifierService } from '@licensing/proto/notifier'
import { ProductService } from '@licensing/proto/products'
import { RootKeyService } from '@licensing/proto/root-keys'
import { apiClient } from '@licensing/test-support/api-client'
import type { ApiClient } from '@licensing/test-support/api-client'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { hash, randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterAll, expect } from 'vitest'
import type { RateLimits } from '../src/admission/throttle.ts'
import { buildApp } from '../src/app.ts'
import { pathIds } from '../src/fields/id.ts'
import { parseSessionKeys } from '../src/admission/session-encryption.ts'
import { connectServices } from '../src/services.ts'
import type { ServiceAddresses } from '../src/services.ts'

type SomeHandlers<S extends DescService> = Partial<Handlers<S>>

/** The answers of the services behind the gateway. An RPC without an entry fails with `internal`. */
export interface StandIns {
  catalog: SomeHandlers<typeof CatalogService>
  licensing: SomeHandlers<typeof LicensingService>
  products: SomeHandlers<typeof ProductService>
  customers: SomeHandlers<typeof CustomerService>
  rootKeys: SomeHandlers<typeof RootKeyService>
  billing: SomeHandlers<typeof BillingService>
  notifier: SomeHandlers<typeof NotifierService>
}

export interface KnownKey {
  actorId: string
  accountId: string
  scopes: Scope[]
  applicationId?: string
}

/** Real gRPC servers in place of the services, whose answers a test chooses. */
export interface StandInServices extends AsyncDisposable {
  readonly answers: StandIns
  /** Names of the RPCs that were called, in order. */
  readonly calls: string[]
  readonly apiKey: string
  /** Keys that the catalog knows. Delete one to revoke it. */
  readonly keys: Map<string, KnownKey>
  /** Creates a key that the catalog knows. */
  keyWith(scopes: Scope[], applicationId?: string): string
  /** The connection of the gateway to the catalog. */
  readonly toCatalog: FaultyProxy
  readonly addresses: ServiceAddresses
  /** Stops the catalog. Calls of it fail as if the process were down. */
  endCatalog(): Promise<void>
}

/** The real gateway on a port, in front of stand-ins of the services. */
export interface TestGateway extends StandInServices {
  readonly url: string
  readonly port: number
  readonly app: FastifyInstance
  readonly health: Health
  /** A client whose key has all four scopes. */
  readonly api: ApiClient
}

export const accountId = 'acct_01k9zj3v8qe5ktw2m4x6r7n8ab'
export const appId = 'app_01k9zj3v8qe5ktw2m4x6r7n8ab'
/** Another application of the same account. */
export const otherAppId = 'app_01k9zj3v8qe5ktw2m4x6r7n8ac'
/** An application of another account. */
export const otherAccountAppId = 'app_01k9zj3v8qe5ktw2m4x6r7n8ad'

/** A path of the route table with an id or key in place of each parameter. */
export function pathOf(template: string, application = appId): string {
  return template.replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
    if (name === 'app_id') return application
    return name === 'key' ? 'export_pdf' : `${pathIds[name]!.prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`
  })
}

/** The fields that each application has. */
export const applicationDefaults = {
  customerPage: { freesPerDay: 3, offlineDays: 0, keySignIn: false },
}

export const rootKey = `lrk_${'A'.repeat(43)}`
const testSessionKey = randomBytes(32).toString('base64url')
const otherAccountId = 'acct_01k9zj3v8qe5ktw2m4x6r7n8ad'

interface GatewayOptions extends Partial<RateLimits> {
  requestMs?: number
  publicUrl?: string
  portalFolder?: string
  guidesFolder?: string
  downloadsFolder?: string
  /** `PORTAL_SESSION_KEY`; null if it is not set. */
  sessionKey?: string | null
}

export async function startGateway(
  {
    requestMs,
    publicUrl,
    portalFolder,
    guidesFolder,
    downloadsFolder,
    sessionKey,
    ...limits
  }: GatewayOptions = {},
  log = createLogger('test', process.env['TEST_LOG_LEVEL'] ?? 'silent'),
): Promise<TestGateway> {
  await using started = new AsyncDisposableStack()
  const undeclared: unknown[] = []
  const watched: typeof log = Object.assign(Object.create(log) as typeof log, {
    error: (fields: unknown, text: string) => {
      if (text.includes('does not declare')) undeclared.push(fields)
      log.error(fields, text)
    },
  })
  const standIns = started.use(await startStandIns(log))
  const services = connectServices(standIns.addresses)
  started.defer(() => services.close())
  const health = new Health()
  for (const [name, probe] of Object.entries(services.probes)) health.add(name, probe)
  const app = await buildApp({
    services: services.calls,
    limits: {
      perKey: 100_000,
      perAddress: 100_000,
      wrongKeysPerAddress: 100_000,
      trialsPerAddress: 100_000,
      ...limits,
    },
    trustProxy: (_address, hop) => hop < 1,
    health,
    parts: health,
    log: watched,
    publicUrl,
    portalFolder: portalFolder ?? '/nowhere',
    guidesFolder,
    downloadsFolder,
    sessionKeys: sessionKey === null ? undefined : parseSessionKeys(sessionKey ?? testSessionKey),
    ...(requestMs !== undefined && { requestMs }),
  })
  started.defer(() => app.close())
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const running = started.move()
  return {
    ...standIns,
    url,
    port,
    app,
    health,
    api: apiClient(url, standIns.apiKey),
    async [Symbol.asyncDispose]() {
      await running.disposeAsync()
      expect(undeclared, 'error codes that their routes do not declare').toEqual([])
    },
  }
}

export async function startStandIns(log = createLogger('test', 'silent')): Promise<StandInServices> {
  await using started = new AsyncDisposableStack()
  const keys = new Map<string, KnownKey>()
  const answers: StandIns = {
    catalog: catalogAnswers(keys),
    licensing: {},
    products: {},
    rootKeys: {
      getRootKeys: async ({ applicationIds }) => ({ rootKeys: applicationIds.map(() => rootKey) }),
    },
    billing: {},
    notifier: {},
    customers: {
      findCustomerSession: async () => ({
        session: { accountId, applicationId: appId, licenceId: pathOf('{licence_id}') },
        hasEnded: false,
      }),
    },
  }
  const calls: string[] = []
  const listen = async (...services: Parameters<typeof serve>[0]['services']) => {
    const server = await serve({
      address: { host: '127.0.0.1', port: 0 },
      services,
      log,
      health: new Health(),
    })
    started.defer(() => server.stop())
    return server
  }
  const catalog = await listen(standIn(CatalogService, answers.catalog, calls))
  const licensing = await listen(
    standIn(LicensingService, answers.licensing, calls),
    standIn(ProductService, answers.products, calls),
    standIn(CustomerService, answers.customers, calls),
    standIn(RootKeyService, answers.rootKeys, calls),
  )
  const billing = await listen(standIn(BillingService, answers.billing, calls))
  const notifier = await listen(standIn(NotifierService, answers.notifier, calls))
  const toCatalog = started.use(await startFaultyProxy(`127.0.0.1:${catalog.port}`))
  const keyWith = (scopes: Scope[], applicationId?: string) => {
    const key = `lsk_${randomBytes(24).toString('hex')}`
    const actorId = `key_${randomBytes(13).toString('hex')}`
    keys.set(hashOf(key), {
      actorId,
      accountId,
      scopes,
      ...(applicationId !== undefined && { applicationId }),
    })
    return key
  }
  const running = started.move()
  return {
    answers,
    calls,
    apiKey: keyWith([...closedSets.scope]),
    keys,
    keyWith,
    toCatalog,
    addresses: {
      catalog: toCatalog.address,
      licensing: `127.0.0.1:${licensing.port}`,
      billing: `127.0.0.1:${billing.port}`,
      notifier: `127.0.0.1:${notifier.port}`,
    },
    endCatalog: () => catalog.stop(),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Starts a gateway for all tests of a file. */
export async function gatewayOfFile(...options: Parameters<typeof startGateway>): Promise<TestGateway> {
  const gateway = await startGateway(...options)
  afterAll(() => gateway[Symbol.asyncDispose]())
  return gateway
}

export function hashOf(key: string): string {
  return hash('sha256', key, 'hex')
}

function catalogAnswers(keys: Map<string, KnownKey>): SomeHandlers<typeof CatalogService> {
  return {
    authenticateKey: async ({ keyHash }) => {
      const known = keys.get(Buffer.from(keyHash).toString('hex'))
      if (!known) throw new ServiceError('unauthenticated', 'there is no such key')
      return known
    },
    authenticateKeys: async ({ keyHashes }) => ({
      answers: keyHashes.map((keyHash) => {
        const principal = keys.get(Buffer.from(keyHash).toString('hex'))
        return principal ? { principal } : {}
      }),
    }),
    findApplicationOwner: async ({ applicationId }) => {
      if (applicationId === otherAccountAppId) return { accountId: otherAccountId }
      if (applicationId === appId || applicationId === otherAppId) return { accountId }
      throw new ServiceError('not_found', 'there is no such application')
    },
  }
}

function standIn<S extends DescService>(service: S, answers: SomeHandlers<S>, calls: string[]) {
  const handlers: Record<string, (request: never) => Promise<unknown>> = {}
  for (const { localName } of service.methods) {
    handlers[localName] = async (request) => {
      calls.push(localName)
      const answer = (answers as Record<string, ((request: never) => Promise<unknown>) | undefined>)[
        localName
      ]
      if (!answer) throw new Error(`no answer is given for ${localName}`)
      return answer(request)
    }
  }
  return implement(service, handlers as unknown as Handlers<S>)
}
