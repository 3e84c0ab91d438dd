import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import type { DatabaseService, ServiceName } from '@licensing/local-servers/services'

export const services = [
  'catalog',
  'licensing',
  'billing',
  'notifier',
  'gateway',
] as const satisfies ServiceName[]
export const replicas = [1, 2] as const

/** The services that each service calls. */
export const peersOf: Record<ServiceName, DatabaseService[]> = {
  catalog: ['licensing'],
  licensing: ['catalog'],
  billing: ['catalog', 'licensing'],
  notifier: ['catalog'],
  gateway: ['catalog', 'licensing', 'billing', 'notifier'],
}

/** The receivers of webhooks. Each has its own path, answers and link. */
export const receiverNames = ['steady', 'flapping', 'slow'] as const
export type ReceiverName = (typeof receiverNames)[number]

/** The processes of the services, such as `licensing-2`. */
export const processNames = services.flatMap((service) => replicas.map((replica) => `${service}-${replica}`))

/** The name of each connection between two components, such as `licensing-2>postgres`. */
export const linkNames = [
  ...services.flatMap((service) =>
    replicas.flatMap((replica) => {
      const servers = service === 'gateway' ? [] : ['postgres', 'nats']
      const peers = peersOf[service].flatMap((peer) => replicas.map((other) => `${peer}-${other}`))
      const processor = service === 'billing' ? ['processor'] : []
      return [...servers, ...peers, ...processor].map((to) => `${service}-${replica}>${to}`)
    }),
  ),
  ...replicas.map((replica) => `clients>gateway-${replica}`),
  'processor>gateway',
  ...receiverNames.map((receiver) => `notifier>${receiver}`),
]

/**
 * Starts a proxy for each link.
 *
 * @param addressOf returns the address of the second component of a link, as `host:port`
 */
export async function startLinks(
  addressOf: (to: string) => string,
  started: AsyncDisposableStack,
): Promise<Map<string, FaultyProxy>> {
  const links = new Map<string, FaultyProxy>()
  for (const name of linkNames) {
    links.set(name, started.use(await startFaultyProxy(addressOf(name.split('>')[1]!))))
  }
  return links
}
