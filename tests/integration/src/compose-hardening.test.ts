import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { componentNames, manifests, nameLabel, specOf, type NetworkPolicy } from './manifests.ts'

interface ComposeService {
  init?: boolean
  read_only?: boolean
  cap_drop?: string[]
  cap_add?: string[]
  security_opt?: string[]
  privileged?: boolean
  user?: string
  pids_limit?: number
  mem_limit?: string
  networks?: string[]
  network_mode?: string
  ports?: string[]
}
interface Compose {
  services: Record<string, ComposeService>
  networks: Record<string, { internal?: boolean; driver_opts?: Record<string, string> } | null>
}
interface Workload {
  template: {
    spec: {
      securityContext: { runAsUser: number; runAsGroup: number; seccompProfile: { type: string } }
      containers: {
        resources: { limits: { memory: string } }
        securityContext: {
          allowPrivilegeEscalation: boolean
          readOnlyRootFilesystem: boolean
          capabilities: { drop: string[] }
        }
      }[]
    }
  }
}

const read = async (file: string) =>
  parse(await readFile(fileURLToPath(new URL(`../../../deploy/${file}`, import.meta.url)), 'utf8'), {
    merge: true,
    // Compose files have their own YAML tags.
    logLevel: 'error',
  }) as Compose
const compose = await read('compose.yaml')
const cluster = await read('compose.cluster.yaml')

/** The rights of a container, in compose's terms. */
function rightsOf(kind: string, name: string) {
  const { securityContext: pod, containers } = specOf<Workload>(kind, name).template.spec
  const { securityContext: container, resources } = containers[0]!
  expect(pod.seccompProfile.type, name).toBe('RuntimeDefault')
  return {
    read_only: container.readOnlyRootFilesystem,
    cap_drop: container.capabilities.drop,
    security_opt: container.allowPrivilegeEscalation ? [] : ['no-new-privileges:true'],
    user: `${pod.runAsUser}:${pod.runAsGroup}`,
    mem_limit: resources.limits.memory.replace(/Mi$/, 'm'),
  }
}

/** The services that share a network with a service of the compose file. */
function neighboursOf(name: string): string[] {
  const { networks = [] } = compose.services[name]!
  return Object.entries(compose.services)
    .filter(([other, service]) => other !== name && service.networks?.some((each) => networks.includes(each)))
    .map(([other]) => other)
    .toSorted()
}

const workloads: [string, string, ComposeService][] = [
  ...componentNames.map((name): [string, string, ComposeService] => [
    'Deployment',
    name,
    compose.services[name]!,
  ]),
  ['StatefulSet', 'nats', compose.services['nats']!],
  ['StatefulSet', 'nats', cluster.services['nats-2']!],
  ['StatefulSet', 'nats', cluster.services['nats-3']!],
]

test.each(workloads)('%s %s has the same rights and limits in compose', (kind, name, service) => {
  expect(service).toMatchObject(rightsOf(kind, name))
  expect(service.cap_add).toBeUndefined()
})

test('every service of the compose file is hardened, also PostgreSQL and make-secrets', () => {
  for (const [name, service] of Object.entries(compose.services)) {
    expect(service, name).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      user: expect.any(String),
      pids_limit: expect.any(Number),
      mem_limit: expect.stringMatching(/^\d+[mg]$/),
    })
    expect(service.privileged, name).toBeUndefined()
    // Without a named network, a service would join the default network, which all share.
    expect(service.network_mode ?? service.networks, name).toBeDefined()
  }
  // `postgres-container.test.ts` shows why.
  expect(compose.services['postgres']!.init).toBe(true)
  // Only root can change the owner of the secrets.
  const asRoot = Object.entries(compose.services).filter(([, { user }]) => /^(0|root)\b/.test(user ?? ''))
  expect(asRoot.map(([name, { network_mode: mode }]) => [name, mode])).toEqual([['secrets', 'none']])
  const added = Object.entries(compose.services).filter(([, service]) => service.cap_add !== undefined)
  expect(added.map(([name]) => name)).toEqual(['secrets'])
})

test.each([
  ['nats', 4222],
  ['postgres', 5432],
])('%s shares a network with exactly the services that Kubernetes allows to connect', (name, port) => {
  const { ingress = [] } = specOf<NetworkPolicy>('NetworkPolicy', name)
  const admitted = ingress
    .filter(({ ports }) => ports.some((each) => each.port === port))
    .flatMap(({ from = [] }) =>
      from.map(({ podSelector }) => podSelector?.matchLabels[nameLabel] ?? 'anyone'),
    )
  expect(neighboursOf(name)).toEqual(admitted.toSorted())
  expect(neighboursOf(name)).not.toContain('gateway')
  for (const network of compose.services[name]!.networks!) {
    expect(compose.networks[network], network).toMatchObject({ internal: true })
  }
})

test('only services that Kubernetes allows can reach the internet, and only the gateway’s port is published', () => {
  const translated = Object.entries(compose.networks)
    .filter(([, network]) => !network?.internal)
    .filter(
      ([, network]) => network?.driver_opts?.['com.docker.network.bridge.enable_ip_masquerade'] !== 'false',
    )
    .map(([name]) => name)
  const out = Object.entries(compose.services)
    .filter(([, { networks = [] }]) => networks.some((network) => translated.includes(network)))
    .map(([name]) => name)
  const allowed = manifests
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map(({ spec }) => spec as NetworkPolicy)
    .filter(({ egress }) => egress.some(({ to }) => to.some(({ ipBlock }) => ipBlock !== undefined)))
    // CloudNativePG's databases, which compose does not have, write to an object store.
    .filter(({ podSelector }) => !JSON.stringify(podSelector).includes('cnpg.io/cluster'))
    .map(({ podSelector }) => podSelector.matchLabels?.[nameLabel] ?? 'every pod')
  expect(out.toSorted()).toEqual(allowed.toSorted())
  // The engine uses the first network by name as the default route.
  for (const name of out) {
    const open = compose.services[name]!.networks!.filter((network) => !compose.networks[network]?.internal)
    expect(translated, name).toContain(open.toSorted()[0])
  }
  const published = Object.entries(compose.services).filter(([, { ports }]) => ports !== undefined)
  expect(published.map(([name, { ports }]) => [name, ports])).toEqual([
    ['gateway', [expect.stringMatching(/^127\.0\.0\.1:/)]],
  ])
})
