import { randomBytes } from 'node:crypto'
import { dropDatabases, ensureDatabases } from '@licensing/local-servers/databases'
import { retryTakenPorts } from '@licensing/local-servers/node-process'
import { newApiKey, newEncryptionKey, newPassword } from '@licensing/local-servers/secrets'
import { DATABASE_SERVICES, type DatabaseService, type ServiceName } from '@licensing/local-servers/services'
import {
  freeAddresses,
  serviceEnvironment,
  type StackAddresses,
} from '@licensing/local-servers/stack-environment'
import { apiClient, demoAccount } from './api-client.ts'
import { newCallerKeys } from './caller-keys.ts'
import { startComposeStack } from './compose-stack.ts'
import { startOwnNats } from './nats.ts'
import { eventually } from './poll.ts'
import { startService } from './process.ts'
import { sharedPostgresUrl } from './shared-servers.ts'
import type { Stack, StackOptions } from './stack-shape.ts'
import { startSimulator } from './stripe-simulator.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'
import type { TestProcess } from './test-process.ts'

/**
 * Starts a stack on free ports and returns when the gateway is ready and the demo account exists. With TEST_COMPOSE (the tag
 * of images, such as `local`) it starts the stack of the compose file.
 *
 * @example
 * await using receiver = await startHttpsReceiver()
 * await using stack = await startStack({ receiver, environment: { WEBHOOK_BACKOFF_SECONDS: '1,1' } })
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const tag = process.env['TEST_COMPOSE']
  if (tag) return startComposeStack(options, tag)
  return retryTakenPorts(() => tryStack(options))
}

async function tryStack(options: StackOptions): Promise<Stack> {
  await using started = new AsyncDisposableStack()
  const logs = options.logFolder ?? started.use(await makeTemporaryFolder()).path
  const through = options.through ?? ((_from, _to, address) => Promise.resolve(address))
  const nats = started.use(await startOwnNats())
  const databaseUrls = await ownDatabases(options.postgresUrl ?? sharedPostgresUrl(), started)
  const apiKey = newApiKey()
  const callerKeys = newCallerKeys()
  const replicas = await replicaAddresses(options.replicas ?? {})
  const simulator = options.simulator
    ? started.use(
        await startSimulator(`http://${await through('processor', 'gateway', replicas[0].gateway)}`, logs),
      )
    : undefined
  const urlThrough = async (from: string, to: string, given: string) => {
    const [, hosts = ''] = /:\/\/(?:[^/?]*@)?([^/?]*)/.exec(given) ?? []
    return given.replace(hosts, await through(from, to, hosts)).replace(/\/$/, '')
  }
  const environmentOf = async (service: ServiceName, name: string, addresses: StackAddresses) => ({
    ...serviceEnvironment(service, {
      addresses,
      databaseUrls:
        service === 'gateway'
          ? databaseUrls
          : { ...databaseUrls, [service]: await urlThrough(name, 'postgres', databaseUrls[service]) },
      natsUrl: service === 'gateway' ? nats.url : await urlThrough(name, 'nats', nats.urlOf(service)),
      encryptionKeys: ENCRYPTION_KEYS,
      bootstrapKey: apiKey,
      portalSessionKey: PORTAL_SESSION_KEY,
      operator: {
        WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
        WEBHOOK_CA_FILE: options.receiver?.caFile,
        STRIPE_WEBHOOK_SECRET: 'whsec_of_the_test',
        // A service refuses a call that its caller may not make. Calls of the tests themselves name no caller and are accepted.
        CALLER_CHECK: 'accept',
        ...callerKeys[service],
        ...simulator?.environment,
        ...(simulator && { STRIPE_API_BASE: await urlThrough(name, 'processor', simulator.url) }),
        ...options.environment,
      },
    }),
    ...(await peers(replicas, options.replicas ?? {}, (to, address) => through(name, to, address))),
  })
  const startAll = async (service: ServiceName) => {
    const own = replicas.slice(0, options.replicas?.[service] ?? 1)
    const processes = await Promise.all(
      own.map(async (addresses, index) => {
        const name = `${service}-${index + 1}`
        return startService(service, await environmentOf(service, name, addresses), logs, {
          name,
          ...(options.release !== undefined && { release: options.release }),
          ...(options.restartsAtOnce && { waitMs: 0 }),
        })
      }),
    )
    for (const each of processes) started.use(each)
    if (options.restartsAtOnce) await Promise.all(processes.map((each) => each.untilReady()))
    return processes
  }
  const [catalog, licensing, billing, notifier, gateway] = await Promise.all([
    startAll('catalog'),
    startAll('licensing'),
    startAll('billing'),
    startAll('notifier'),
    startAll('gateway'),
  ])
  started.defer(() => refuseUndeclaredCodes(gateway))
  const gatewayUrls = gateway.map(({ operationsUrl }) => operationsUrl)
  const gatewayUrl = gatewayUrls[0] as string
  const api = apiClient(gatewayUrl, apiKey)
  const { accountId, appId } = await eventually(() => demoAccount(api))
  const running = started.move()
  return {
    gatewayUrl,
    gatewayUrls,
    accountId,
    appId,
    apiKey,
    api,
    processes: { catalog, licensing, billing, notifier, gateway },
    databaseUrls,
    nats,
    simulator,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

const ENCRYPTION_KEYS = { licensing: newEncryptionKey(), notifier: newEncryptionKey() }
const PORTAL_SESSION_KEY = newEncryptionKey()

/** Fails the test if the gateway answered with an error that the OpenAPI document does not list for the route. */
export async function refuseUndeclaredCodes(gateway: TestProcess[]): Promise<void> {
  const logs = await Promise.all(gateway.map((each) => each.log()))
  const lines = logs.flatMap((log) => log.split('\n')).filter((line) => line.includes('does not declare'))
  if (lines.length > 0) throw new Error(`the gateway answered with undeclared errors:\n${lines.join('\n')}`)
}

async function ownDatabases(
  serverUrl: string,
  started: AsyncDisposableStack,
): Promise<Record<DatabaseService, string>> {
  const suffix = `t${randomBytes(6).toString('hex')}`
  started.defer(() => dropDatabases({ serverUrl, suffix }))
  const passwords = {
    catalog: newPassword(),
    licensing: newPassword(),
    billing: newPassword(),
    notifier: newPassword(),
  }
  return ensureDatabases({ serverUrl, suffix, passwords })
}

async function replicaAddresses(
  replicas: Partial<Record<ServiceName, number>>,
): Promise<[StackAddresses, ...StackAddresses[]]> {
  const addresses: [StackAddresses, ...StackAddresses[]] = [await freeAddresses()]
  while (addresses.length < Math.max(1, ...Object.values(replicas))) addresses.push(await freeAddresses())
  return addresses
}

/** The address of each service: all replicas in one target, in the format of gRPC's name resolvers. */
async function peers(
  addresses: StackAddresses[],
  replicas: Partial<Record<ServiceName, number>>,
  through: (to: string, address: string) => Promise<string>,
): Promise<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const service of DATABASE_SERVICES) {
    const own = addresses.slice(0, replicas[service] ?? 1)
    const reached = await Promise.all(
      own.map(({ grpc }, at) => through(`${service}-${at + 1}`, grpc[service])),
    )
    all[`${service.toUpperCase()}_ADDRESS`] =
      reached.length === 1 ? reached.join() : `ipv4:///${reached.join(',')}`
  }
  return all
}
