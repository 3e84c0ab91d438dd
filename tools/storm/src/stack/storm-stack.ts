import { join } from 'node:path'
import { ensureDatabases } from '@licensing/local-servers/databases'
import type { NatsServer } from '@licensing/local-servers/nats'
import { NotReadyError, startNode, untilReady, type NodeProcess } from '@licensing/local-servers/node-process'
import { freePort } from '@licensing/local-servers/ports'
import { startPostgres, type PostgresServer } from '@licensing/local-servers/postgres'
import { newApiKey, newEncryptionKey, newPassword } from '@licensing/local-servers/secrets'
import { DATABASE_SERVICES, type DatabaseService, type ServiceName } from '@licensing/local-servers/services'
import {
  freeAddresses,
  serviceEnvironment,
  type StackAddresses,
} from '@licensing/local-servers/stack-environment'
import { SIMULATOR_MAIN, simulatorEnvironment, simulatorSettings } from '@licensing/local-servers/stripe'
import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { startHttpsReceiver, type HttpsReceiver } from '@licensing/test-support/https-receiver'
import { startOwnNats, type OwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TestProcess } from '@licensing/test-support/test-process'
import { linkNames, receiverNames, replicas, services, startLinks, type ReceiverName } from './links.ts'
import { makeVendor, type Vendor } from './vendors.ts'

/** Two replicas of every service. Each of their connections goes through its own proxy. */
export interface StormStack extends AsyncDisposable {
  readonly folder: string
  readonly postgres: PostgresServer
  readonly nats: NatsServer
  readonly databaseUrls: Record<DatabaseService, string>
  readonly members: Map<string, Member>
  readonly links: Map<string, FaultyProxy>
  readonly receiver: HttpsReceiver
  readonly processor: { url: string; node: NodeProcess }
  /** URLs of the gateways through the clients' links. */
  readonly gatewayUrls: string[]
  /** URLs of the gateways without a link, for the checks at the end. */
  readonly directGatewayUrls: string[]
  readonly vendors: Vendor[]
}

const vendorCount = 3
const webhookSecret = 'whsec_of_the_storm'

// The twelve attempts span 90 s: longer than any receiver is down, and shorter than a storm, so that a dead endpoint is disabled.
const operator = {
  LOG_LEVEL: 'warn',
  WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
  WEBHOOK_BACKOFF_SECONDS: '1,1,2,3,5,8,10,10,12,15,20',
  SWEEP_INTERVAL_SECONDS: '1',
  RECONCILE_INTERVAL_SECONDS: '3',
  RATE_LIMIT_PER_MINUTE: '10000000',
  PRODUCT_RATE_PER_MINUTE: '10000000',
  PRODUCT_WRONG_KEYS_PER_MINUTE: '10000000',
  PRODUCT_TRIALS_PER_DAY: '10000000',
  DATABASE_CONNECTIONS: '12',
}

/** @param folder the folder for the logs, which is kept */
export async function startStormStack(folder: string): Promise<StormStack> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await tryToStart(folder)
    } catch (error) {
      if (!(error instanceof NotReadyError && error.portTaken) || attempt === 3) throw error
    }
  }
}

async function tryToStart(folder: string): Promise<StormStack> {
  await using started = new AsyncDisposableStack()
  const data = started.use(await makeTemporaryFolder())
  const [postgres, nats, receiver] = await Promise.all([
    startPostgres({ dataDir: join(data.path, 'postgres'), durable: false }),
    startOwnNats(),
    startHttpsReceiver(),
  ])
  started.use(postgres)
  started.use(nats)
  started.use(receiver)
  const databaseUrls = await ensureDatabases({
    serverUrl: postgres.url(),
    suffix: 'storm',
    passwords: {
      catalog: newPassword(),
      licensing: newPassword(),
      billing: newPassword(),
      notifier: newPassword(),
    },
  })
  const addresses = [await freeAddresses(), await freeAddresses()]
  const processorAddress = `127.0.0.1:${await freePort()}`
  const links = await startLinks((to) => {
    if (to === 'postgres') return `127.0.0.1:${postgres.port}`
    if (to === 'nats') return `127.0.0.1:${nats.port}`
    if (to === 'processor') return processorAddress
    if (to === 'gateway') return addresses[0]!.gateway
    if (receiverNames.includes(to as ReceiverName)) return `127.0.0.1:${receiver.port}`
    const [service, replica] = to.split('-') as [ServiceName, string]
    const own = addresses[Number(replica) - 1]!
    return service === 'gateway' ? own.gateway : own.grpc[service]
  }, started)
  const environmentOf = environments({ nats, addresses, links, databaseUrls, processorAddress, receiver })
  const processor = await startNode(
    'processor',
    SIMULATOR_MAIN,
    {
      PATH: process.env['PATH'] ?? '',
      ...simulatorEnvironment(
        processorAddress,
        `http://${links.get('processor>gateway')!.address}`,
        webhookSecret,
      ),
      LOG_LEVEL: 'warn',
    },
    join(folder, 'processor.log'),
  )
  started.defer(() => processor.server.stop())
  const members = new Map<string, Member>()
  for (const service of services) {
    for (const replica of replicas) {
      const name = `${service}-${replica}`
      const member = await startMember(service, name, environmentOf(service, replica), folder)
      started.use(member.process)
      members.set(name, member)
    }
  }
  await untilReady(processor, `http://${processorAddress}/healthz`, 60_000)
  await Promise.all([...members.values()].map((member) => member.process.untilReady(60_000)))
  const gatewayUrls = replicas.map((replica) => `http://${links.get(`clients>gateway-${replica}`)!.address}`)
  const vendors: Vendor[] = []
  for (let number = 1; number <= vendorCount; number += 1) {
    vendors.push(
      await makeVendor(`Vendor ${number}`, gatewayUrls, { GRPC_ADDRESS: addresses[0]!.grpc.catalog }),
    )
  }
  const running = started.move()
  return {
    folder,
    postgres,
    nats,
    databaseUrls,
    members,
    links,
    receiver,
    processor: { url: `http://${processorAddress}`, node: processor },
    gatewayUrls,
    directGatewayUrls: addresses.map(({ gateway }) => `http://${gateway}`),
    vendors,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

interface Parts {
  nats: OwnNats
  addresses: StackAddresses[]
  links: Map<string, FaultyProxy>
  databaseUrls: Record<DatabaseService, string>
  processorAddress: string
  receiver: HttpsReceiver
}

function environments({ nats, addresses, links, databaseUrls, processorAddress, receiver }: Parts) {
  const encryptionKeys = { licensing: newEncryptionKey(), notifier: newEncryptionKey() }
  const bootstrapKey = newApiKey()
  const portalSessionKey = newEncryptionKey()
  return (service: ServiceName, replica: number): Record<string, string> => {
    const self = `${service}-${replica}`
    const link = (to: string) => links.get(`${self}>${to}`)?.address
    const own = serviceEnvironment(service, {
      addresses: addresses[replica - 1]!,
      databaseUrls,
      natsUrl: service === 'gateway' ? '' : nats.urlOf(service, link('nats')),
      encryptionKeys,
      bootstrapKey,
      portalSessionKey,
      operator: {
        ...operator,
        ...simulatorSettings(link('processor') ?? processorAddress, webhookSecret),
        WEBHOOK_CA_FILE: receiver.caFile,
      },
    })
    const throughLinks = DATABASE_SERVICES.filter((peer) => linkNames.includes(`${self}>${peer}-1`)).map(
      (peer) => [
        `${peer.toUpperCase()}_ADDRESS`,
        `ipv4:///${replicas.map((other) => link(`${peer}-${other}`)).join(',')}`,
      ],
    )
    const database = link('postgres')
    if (database !== undefined && service !== 'gateway') {
      const url = new URL(databaseUrls[service])
      url.host = database
      own['DATABASE_URL'] = url.href
    }
    return { ...own, ...Object.fromEntries(throughLinks) }
  }
}

/** A process of the stack, with functions that inflict faults on it. */
export interface Member {
  readonly name: string
  readonly operationsUrl: string
  /** Whether it should be running: false while a fault keeps it down. */
  readonly wanted: boolean
  running(): boolean
  kill(): Promise<void>
  terminate(): Promise<void>
  freeze(): void
  resume(): void
  start(): Promise<void>
  process: TestProcess
}

async function startMember(
  service: ServiceName,
  name: string,
  environment: Record<string, string>,
  folder: string,
): Promise<Member> {
  const process = await startService(service, environment, folder, { name, waitMs: 0 })
  let wanted = true
  return {
    name,
    operationsUrl: process.operationsUrl,
    process,
    get wanted() {
      return wanted
    },
    running: () => isAlive(process.pid),
    kill: async () => {
      wanted = false
      await process.kill()
    },
    terminate: async () => {
      wanted = false
      await process.stop()
    },
    freeze: () => {
      if (isAlive(process.pid)) process.freeze()
    },
    resume: () => {
      if (isAlive(process.pid)) process.resume()
    },
    start: async () => {
      await process.start()
      wanted = true
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
