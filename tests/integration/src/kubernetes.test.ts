import { configurations } from '@licensing/operations/configuration'
import { readConfig } from '@licensing/process/config'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { readFile, readdir } from 'node:fs/promises'
import { BlockList, isIPv6 } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import {
  componentNames,
  kubernetes,
  manifests,
  nameLabel,
  parseManifests,
  specOf,
  type Manifest,
  type NetworkPolicy,
  type Peer,
} from './manifests.ts'

const run = promisify(execFile)
const hasKubectl = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
)

interface Port {
  name: string
  containerPort?: number
  port?: number
  targetPort?: string
}
interface Deployment {
  selector: { matchLabels: Record<string, string> }
  template: {
    metadata: { labels: Record<string, string> }
    spec: {
      securityContext: { runAsNonRoot: boolean }
      containers: {
        ports: Port[]
        env: { name: string; value?: string; valueFrom?: Record<string, { name: string; key: string }> }[]
        resources: { requests: Record<string, string> }
        securityContext: { readOnlyRootFilesystem: boolean; allowPrivilegeEscalation: boolean }
        [probe: `${string}Probe`]: {
          httpGet: { port: string; path: string }
          periodSeconds: number
          failureThreshold: number
        }
      }[]
    }
  }
}

// The schemas of the custom resources of CloudNativePG, from its release, without descriptions.
const schemasFile = new URL('../fixtures/cloudnative-pg-1.27.json', import.meta.url)
// Unlike Kubernetes, which drops unknown fields, the test refuses them.
const schemas = JSON.parse(await readFile(schemasFile, 'utf8'), (_name, value: object) =>
  typeof value === 'object' && 'properties' in value && !('additionalProperties' in value)
    ? { additionalProperties: false, ...value }
    : value,
) as Record<string, { properties: { metadata: object } }>
const ajv = new Ajv({ strict: false, validateFormats: false })

async function expectValid(manifest: Manifest): Promise<void> {
  const { file, ...object } = manifest
  if (object.apiVersion === 'postgresql.cnpg.io/v1') {
    expect(ajv.validate(schemas[object.kind]!, object), `${file}: ${ajv.errorsText()}`).toBe(true)
    return
  }
  const models = object.apiVersion.startsWith('monitoring.coreos.com/')
    ? '@kubernetes-models/prometheus-operator'
    : 'kubernetes-models'
  const path = `${models}/${object.apiVersion}/${object.kind}`
  const loaded = (await import(path)) as Record<string, new (json: object) => { validate(): void }>
  const Model = loaded[object.kind]!
  expect(() => new Model(object).validate(), `${file}: ${object.kind} ${object.metadata.name}`).not.toThrow()
}

/** Components with an address in the environment of a component: `CATALOG_ADDRESS: catalog:7000`. */
function peersOf(component: string): string[] {
  const { env } = specOf<Deployment>('Deployment', component).template.spec.containers[0]!
  return env
    .filter(({ name }) => /^(CATALOG|LICENSING|BILLING|NOTIFIER)_ADDRESS$/.test(name))
    .map(({ value }) => value!.replace(/:7000$/, ''))
    .toSorted()
}

/** Pods to which, or from which, a policy allows traffic on a port. */
function podsOn(
  rules: { ports: { port: string | number }[]; peers: Peer[] }[],
  port: string | number,
): string[] {
  return rules
    .filter(({ ports }) => ports.some((each) => each.port === port))
    .flatMap(({ peers }) => peers.map(({ podSelector }) => podSelector?.matchLabels[nameLabel] ?? ''))
    .filter((name) => name !== '')
    .toSorted()
}

test('every manifest matches its schema', async () => {
  expect(manifests.length).toBeGreaterThan(25)
  for (const manifest of manifests) await expectValid(manifest)
  const broken = manifests.find(({ kind }) => kind === 'Deployment')!
  await expect(expectValid({ ...broken, spec: { replicas: 'two' } as never })).rejects.toThrow()
  const cluster = manifests.find(({ kind }) => kind === 'Cluster')!
  const misspelled = { ...(cluster.spec as object), instnces: 2 } as never
  await expect(expectValid({ ...cluster, spec: misspelled })).rejects.toThrow('additional properties')
})

test
  .skipIf(!hasKubectl)
  .each([
    'overlays/production',
    'overlays/trial',
    'overlays/cloudnative-pg',
    '../operations',
    ...componentNames.map((name) => `base/${name}`),
  ])('%s is built by kustomize, and is valid', async (folder) => {
  const { stdout } = await run('kubectl', ['kustomize', join(kubernetes, folder)])
  const built = parseManifests(stdout, folder)
  expect(built.length).toBeGreaterThan(2)
  for (const manifest of built) await expectValid(manifest)
})

test('the kustomization of a folder names exactly its files', async () => {
  const folders = new Set(
    manifests.map(({ file }) => dirname(file)).filter((folder) => folder !== '../operations'),
  )
  for (const folder of folders) {
    const text = await readFile(join(kubernetes, folder, 'kustomization.yaml'), 'utf8')
    const named = [...text.matchAll(/^ {2}- ([a-z-]+\.yaml)$/gm)].map(([, name = '']) => name)
    const files = (await readdir(join(kubernetes, folder))).filter((file) => file.endsWith('.yaml'))
    expect(named.toSorted(), folder).toEqual(files.filter((file) => file !== 'kustomization.yaml').toSorted())
  }
})

test.each(componentNames)('%s: selectors, ports and probes match', (component) => {
  const { selector, template } = specOf<Deployment>('Deployment', component)
  const label = { [nameLabel]: component }
  expect(selector.matchLabels).toEqual(label)
  expect(template.metadata.labels).toMatchObject(label)
  const [container] = template.spec.containers
  const ports = container!.ports.map(({ name }) => name)
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const) {
    expect(ports).toContain(container![probe]!.httpGet.port)
  }
  // A start that is stuck is repeated. A start that waits for the database has half an hour.
  const { httpGet: asked, periodSeconds, failureThreshold } = container!.startupProbe!
  expect([asked.path, periodSeconds * failureThreshold]).toEqual(['/readyz', 1_800])
  const service = specOf<{ selector: Record<string, string>; ports: Port[] }>('Service', component)
  expect(service.selector).toEqual(label)
  for (const { targetPort } of service.ports) expect(ports).toContain(targetPort)
  for (const kind of ['PodDisruptionBudget', 'NetworkPolicy']) {
    const selected = specOf<{ selector?: object; podSelector?: object }>(kind, component)
    expect(selected.selector ?? selected.podSelector).toEqual({ matchLabels: label })
  }
  const { scaleTargetRef } = specOf<{ scaleTargetRef: object }>('HorizontalPodAutoscaler', component)
  expect(scaleTargetRef).toEqual({ apiVersion: 'apps/v1', kind: 'Deployment', name: component })
})

test.each(componentNames)('%s: has minimal rights, and secrets only by reference', (component) => {
  const { securityContext, containers } = specOf<Deployment>('Deployment', component).template.spec
  expect(securityContext.runAsNonRoot).toBe(true)
  expect(containers[0]!.securityContext).toMatchObject({
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: false,
  })
  expect(containers[0]!.resources.requests).toHaveProperty('cpu')
  expect(containers[0]!.resources.requests).toHaveProperty('memory')
  for (const { name, value, valueFrom } of containers[0]!.env) {
    if (/KEY|SECRET|PASSWORD|DATABASE_URL|SMTP_URL/.test(name)) {
      expect(value, name).toBeUndefined()
      expect(valueFrom, name).toHaveProperty('secretKeyRef.name', component)
    }
  }
})

test('every component starts with the secrets of make-secrets, and each pair of services shares a key', async () => {
  await using folder = await makeTemporaryFolder()
  const secrets = { ...process.env, SECRETS_DIR: folder.path }
  await run(fileURLToPath(new URL('../../../deploy/compose/make-secrets', import.meta.url)), { env: secrets })
  const environments = {} as Record<(typeof componentNames)[number], Record<string, string>>
  for (const component of componentNames) {
    const environment: Record<string, string> = {}
    const { env } = specOf<Deployment>('Deployment', component).template.spec.containers[0]!
    for (const { name, value, valueFrom } of env) {
      const { name: from, key } = valueFrom?.['secretKeyRef'] ?? valueFrom?.['configMapKeyRef'] ?? {}
      if (value !== undefined) environment[name] = value
      else if (valueFrom?.['configMapKeyRef']) environment[name] = dataOf(from!)[key!]!
      else {
        const text = await readFile(join(folder.path, from!, 'env'), 'utf8')
        const given = text.split('\n').find((line) => line.startsWith(`${key}=`))
        if (given !== undefined) environment[name] = given.slice(key!.length + 1)
      }
    }
    const unknown = env.filter(
      ({ name }) => !(name in configurations[component].shape) && !forAdmin.has(name),
    )
    expect(unknown, component).toEqual([])
    expect(() => readConfig(configurations[component], environment), component).not.toThrow()
    environments[component] = environment
  }
  for (const caller of componentNames) {
    for (const pair of environments[caller]['CALL_KEYS']!.split(',')) {
      const [callee, key] = pair.split(':') as [(typeof componentNames)[number], string]
      expect(environments[callee]['CALLER_KEYS']!.split(',')).toContain(`${caller}:${key}`)
    }
  }
})

/** Variables of the catalog's container that only `licensing-admin` reads. */
const forAdmin = new Set(['BILLING_ADDRESS'])

const dataOf = (name: string) =>
  (
    manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name) as unknown as {
      data: Record<string, string>
    }
  ).data

test.each(componentNames)('%s can reach exactly the components that its environment names', (component) => {
  const { egress, ingress } = specOf<NetworkPolicy>('NetworkPolicy', component)
  expect(
    podsOn(
      egress.map(({ ports, to }) => ({ ports, peers: to })),
      7000,
    ),
  ).toEqual(peersOf(component))
  // Components that name it in their environment are allowed to connect.
  const callers = componentNames.filter((other) => peersOf(other).includes(component)).toSorted()
  expect(
    podsOn(
      (ingress ?? []).map(({ ports, from }) => ({ ports, peers: from ?? [] })),
      'grpc',
    ),
  ).toEqual(callers)
})

test('only the ingress can reach the gateway, only services can reach NATS and PostgreSQL, and other traffic is denied', () => {
  const services = ['billing', 'catalog', 'licensing', 'notifier']
  const comesIn: Record<string, Record<string, string[]>> = {
    'default-deny': {},
    gateway: { http: ['ingress-nginx'], operations: ['monitoring'] },
    nats: { 4222: services, 6222: ['nats'], 8222: ['monitoring'] },
    postgres: { 5432: services },
  }
  const nameOf = ({ podSelector, namespaceSelector }: Peer) =>
    podSelector?.matchLabels[nameLabel] ??
    namespaceSelector?.matchLabels['kubernetes.io/metadata.name'] ??
    'anyone'
  for (const [name, expected] of Object.entries(comesIn)) {
    const { podSelector, policyTypes, ingress = [] } = specOf<NetworkPolicy>('NetworkPolicy', name)
    expect(podSelector.matchLabels?.[nameLabel] ?? 'every pod', name).toBe(
      name === 'default-deny' ? 'every pod' : name,
    )
    expect(policyTypes, name).toEqual(['Ingress', 'Egress'])
    const found = ingress.flatMap(({ ports, from = [{}] }) =>
      ports.map(({ port }) => [String(port), from.map(nameOf).toSorted()]),
    )
    expect(found, name).toEqual(Object.entries(expected))
  }
  expect(specOf<NetworkPolicy>('NetworkPolicy', 'default-deny').egress).toEqual([])
})

test('only the notifier can reach the internet, and billing only the processor’s API', () => {
  const outside = manifests
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .flatMap(({ metadata, spec: policy }) =>
      (policy as NetworkPolicy).egress
        .filter(({ to }) => to.some(({ ipBlock }) => ipBlock !== undefined))
        .map(({ ports }) => [metadata.name, ports.map(({ port }) => port)]),
    )
  expect(outside).toEqual([
    ['billing-processor', [443]],
    ['notifier', [1]],
    // The API of Kubernetes, and the bucket of the backups.
    ['databases', [443, 6443]],
  ])
})

test('a cluster of PostgreSQL acknowledges a commit when a standby has it, and its service alone connects to its leader', async () => {
  const text = await readFile(join(kubernetes, 'cloudnative-pg/kustomization.yaml'), 'utf8')
  for (const service of componentNames.filter((name) => name !== 'gateway')) {
    const cluster = `${service}-database`
    expect(specOf('Cluster', cluster)).toMatchObject({
      instances: 3,
      bootstrap: { initdb: { database: service, owner: service } },
      postgresql: { synchronous: { number: 1, dataDurability: 'required' } },
      plugins: [{ isWALArchiver: true }],
    })
    expect(specOf('ScheduledBackup', cluster)).toMatchObject({ cluster: { name: cluster } })
    expect(text).toContain(`metadata: { name: ${service} }`)
    expect(text).toContain(`valueFrom: { secretKeyRef: { name: ${cluster}-app, key: uri } }`)
    const { ingress } = specOf<NetworkPolicy>('NetworkPolicy', cluster)
    const pods = { podSelector: { matchLabels: { [nameLabel]: service } } }
    expect(ingress![0]).toEqual({ ports: [{ port: 5432 }], from: [pods] })
    const { egress } = specOf<NetworkPolicy>('NetworkPolicy', `${service}-to-database`)
    const servers = { podSelector: { matchLabels: { 'cnpg.io/cluster': cluster } } }
    expect(egress).toEqual([{ ports: [{ port: 5432 }], to: [servers] }])
  }
})

test('the notifier can reach every port that the URL of an endpoint may have, only on public addresses', () => {
  const { egress } = specOf<NetworkPolicy>('NetworkPolicy', 'notifier')
  const toReceivers = egress.filter(({ to }) => to.some(({ ipBlock }) => ipBlock !== undefined))
  const admits = (wanted: number) =>
    toReceivers.some(({ ports }) =>
      ports.some(
        ({ port, endPort = Number(port), protocol = 'TCP' }) =>
          protocol === 'TCP' && Number(port) <= wanted && wanted <= endPort,
      ),
    )
  for (const port of [1, 25, 80, 443, 444, 3000, 8443, 49_152, 65_535]) {
    expect([port, admits(port)]).toEqual([port, true])
  }
})

test('the policies for the internet exclude every network that the notifier refuses, in every notation', async () => {
  const source = fileURLToPath(
    new URL('../../../services/notifier/src/http-client/address.ts', import.meta.url),
  )
  const text = (await readFile(source, 'utf8')).replace(/^const globalUnicastIPv6 = .*$/m, '')
  const refused = [...text.matchAll(/'([0-9a-f.:]+\/\d+)'/g)].map(([, network = '']) => network)
  expect(refused.length).toBeGreaterThan(25)
  expect(refused).toContain('64:ff9b::/96')
  const wanted = [...refused, '64:ff9b:1::/48', '2002::/16', '2001::/32']
  for (const policy of ['notifier', 'billing-processor']) {
    const { egress } = specOf<NetworkPolicy>('NetworkPolicy', policy)
    const blocks = egress.flatMap(({ to }) => to.flatMap(({ ipBlock }) => ipBlock ?? []))
    expect(blocks.map(({ cidr }) => cidr)).toEqual(['0.0.0.0/0', '::/0'])
    // A list for each address family, because in a mixed list every IPv4 address is also in ::/8.
    const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
    for (const network of blocks.flatMap(({ except = [] }) => except)) {
      const [address = '', bits] = network.split('/')
      lists[familyOf(address)].addSubnet(address, Number(bits), familyOf(address))
    }
    const isExcepted = (address: string) => lists[familyOf(address)].check(address, familyOf(address))
    const open = wanted.filter((network) => {
      const [address = '', bits = ''] = network.split('/')
      return ![address, lastOf(address, Number(bits))].every(isExcepted)
    })
    expect(open, policy).toEqual([])
    expect(['93.184.216.34', '2606:2800:21f:cb07:6820:80da:af6b:8b2c'].filter(isExcepted)).toEqual([])
  }
})

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4')

/** The last address of a network. */
function lastOf(address: string, bits: number): string {
  const { length, radix, separator, part } = isIPv6(address)
    ? { length: 128, radix: 16, separator: ':', part: 16 }
    : { length: 32, radix: 10, separator: '.', part: 8 }
  const [head = '', tail] = address.split('::')
  const parts = (text = '') => (text === '' ? [] : text.split(separator))
  const zeros = length / part - parts(head).length - parts(tail).length
  const all = [...parts(head), ...Array<string>(tail === undefined ? 0 : zeros).fill('0'), ...parts(tail)]
  return all
    .map((each, i) => {
      const free = Math.min(part, Math.max(0, (i + 1) * part - bits))
      return (Number.parseInt(each, radix) | (2 ** free - 1)).toString(radix)
    })
    .join(separator)
}

test('the component exports the custom metrics of its autoscaler', async () => {
  const source = fileURLToPath(new URL('../../../services/notifier/src/dispatch/metrics.ts', import.meta.url))
  const scaler = specOf<{ metrics: { pods?: { metric: { name: string } } }[] }>(
    'HorizontalPodAutoscaler',
    'notifier',
  )
  const names = scaler.metrics.flatMap(({ pods }) => (pods ? [pods.metric.name] : []))
  expect(names).toEqual(['webhook_oldest_due_seconds'])
  const text = await readFile(source, 'utf8')
  for (const name of names) expect(text).toContain(`name: '${name}'`)
})
