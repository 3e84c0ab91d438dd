import { DATABASE_SERVICES, type DatabaseService, type ServiceName } from '@licensing/local-servers/services'
import { startFaultyProxy, type FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { startHttpsReceiver, type HttpsReceiver } from '@licensing/test-support/https-receiver'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { runAdmin } from '@licensing/test-support/run-admin'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import type { TestProcess } from '@licensing/test-support/test-process'

const services: ServiceName[] = [...DATABASE_SERVICES, 'gateway']
const replicas = [1, 2] as const
const vendorCount = 3

/** The services that each service calls. */
const peersOf: Record<ServiceName, DatabaseService[]> = {
  catalog: ['licensing'],
  licensing: ['catalog'],
  billing: ['catalog', 'licensing'],
  notifier: ['catalog'],
  gateway: ['catalog', 'licensing', 'billing', 'notifier'],
}

/** The receivers of webhooks. Each has its own path, answers and link. */
export const receiverNames = ['steady', 'flapping', 'slow']

const both = (service: string) => replicas.map((replica) => `${service}-${replica}`)

/** The processes of the services, such as `licensing-2`. */
export const processNames = services.flatMap(both)

/** The name of each connection between two components that has a proxy, such as `licensing-2>postgres`. */
export const linkNames = [
  ...services.flatMap((service) =>
    both(service).flatMap((self) => {
      const servers = service === 'gateway' ? [] : ['postgres', 'nats']
      const processor = service === 'billing' ? ['processor'] : []
      return [...servers, ...peersOf[service].flatMap(both), ...processor].map((to) => `${self}>${to}`)
    }),
  ),
  ...both('gateway').map((gateway) => `clients>${gateway}`),
  'processor>gateway',
  ...receiverNames.map((receiver) => `notifier>${receiver}`),
]

export interface Vendor {
  accountId: string
  appId: string
  apiKey: string
}

/** Two replicas of every service. Each of their connections goes through its own proxy. */
export interface StormStack extends Stack {
  readonly postgres: Awaited<ReturnType<typeof startOwnPostgres>>
  readonly members: Map<string, Member>
  readonly links: Map<string, FaultyProxy>
  readonly receiver: HttpsReceiver
  readonly processor: NonNullable<Stack['simulator']>
  /** URLs of the gateways through the clients' links. `gatewayUrls` are without a link, for the checks at the end. */
  readonly clientUrls: string[]
  readonly vendors: Vendor[]
}

// The twelve attempts span 90 s: longer than any receiver is down, and shorter than a storm, so that a dead endpoint is disabled.
const environment = {
  LOG_LEVEL: 'warn',
  WEBHOOK_BACKOFF_SECONDS: '1,1,2,3,5,8,10,10,12,15,20',
  SWEEP_INTERVAL_SECONDS: '1',
  RECONCILE_INTERVAL_SECONDS: '3',
  RATE_LIMIT_PER_MINUTE: '10000000',
  PRODUCT_RATE_PER_MINUTE: '10000000',
  PRODUCT_WRONG_KEYS_PER_MINUTE: '10000000',
  PRODUCT_TRIALS_PER_DAY: '10000000',
  DATABASE_CONNECTIONS: '12',
}

/** @param logFolder the folder for the logs, which is kept */
export async function startStormStack(logFolder: string): Promise<StormStack> {
  await using started = new AsyncDisposableStack()
  const postgres = started.use(await startOwnPostgres())
  const receiver = started.use(await startHttpsReceiver())
  const links = new Map<string, FaultyProxy>()
  const through = async (from: string, to: string, address: string) => {
    const name = `${from}>${to}`
    if (!linkNames.includes(name)) return address
    const link = started.use(await startFaultyProxy(address))
    links.set(name, link)
    return link.address
  }
  const stack = started.use(
    await startStack({
      environment,
      replicas: { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 },
      receiver,
      simulator: true,
      postgresUrl: postgres.url(),
      logFolder,
      restartsAtOnce: true,
      through,
    }),
  )
  const clientUrls: string[] = []
  for (const [at, url] of stack.gatewayUrls.entries()) {
    clientUrls.push(`http://${await through('clients', `gateway-${at + 1}`, new URL(url).host)}`)
  }
  for (const name of receiverNames) await through('notifier', name, `127.0.0.1:${receiver.port}`)
  const vendors: Vendor[] = []
  for (let number = 1; number <= vendorCount; number += 1) {
    const { stdout } = await runAdmin(stack, 'create-account', '--name', `Vendor ${number}`)
    const made = JSON.parse(stdout) as { account_id: string; app_id: string; key: string }
    vendors.push({ accountId: made.account_id, appId: made.app_id, apiKey: made.key })
  }
  const members = Object.values(stack.processes).flat().map(memberOf)
  const running = started.move()
  return {
    ...stack,
    postgres,
    receiver,
    processor: stack.simulator!,
    links,
    clientUrls,
    members: new Map(members.map((member) => [member.name, member])),
    vendors,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
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
}

function memberOf(process: TestProcess): Member {
  let wanted = true
  const running = () => isAlive(process.pid)
  return {
    name: process.name,
    operationsUrl: process.operationsUrl,
    get wanted() {
      return wanted
    },
    running,
    kill: async () => {
      wanted = false
      await process.kill()
    },
    terminate: async () => {
      wanted = false
      await process.stop()
    },
    freeze: () => running() && process.freeze(),
    resume: () => running() && process.resume(),
    start: async () => {
      await process.start()
      wanted = true
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
