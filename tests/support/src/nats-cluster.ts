import { findNatsProgram } from '@licensing/local-servers/nats-program'
import { freePort } from '@licensing/local-servers/ports'
import { startServerProcess } from '@licensing/local-servers/server-process'
import { startFaultyProxy, type FaultyProxy } from './faulty-proxy.ts'
import { eventually } from './poll.ts'
import { writeFile } from 'node:fs/promises'
import { natsTestConfiguration } from './nats-users.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** Three NATS servers that replicate their streams, with the accounts of production. */
interface NatsCluster extends AsyncDisposable {
  readonly urls: string[]
  /** URLs of the servers without the proxies. */
  readonly directUrls: string[]
  /** A proxy for each server, if requested. The servers then announce only the proxies' addresses to clients. */
  readonly proxies: FaultyProxy[]
  readonly nodes: NatsNode[]
}

/** One server of a cluster. */
export interface NatsNode {
  readonly storeDir: string
  kill(): Promise<void>
  /** Starts the server again, with the same data and address. */
  start(): Promise<void>
  /** Cuts it off from the other servers, but not from its clients, until `rejoin`. Only if requested. */
  cutOff(): void
  rejoin(): void
}

const formingMs = 45_000
const maxTries = 4

/**
 * Starts a cluster for a test file and returns when its servers are connected. Undefined if this machine can run nats-server
 * only as a container.
 */
export async function startNatsCluster(
  options: { proxied?: boolean; cuttable?: boolean } = {},
): Promise<NatsCluster | undefined> {
  const program = await findNatsProgram()
  if (program.kind === 'docker') return undefined
  for (let tries = 1; ; tries += 1) {
    try {
      return await formCluster(program.path, options)
    } catch (error) {
      // Another process has taken a port meanwhile.
      if (tries === maxTries) throw error
    }
  }
}

async function formCluster(
  program: string,
  { proxied = false, cuttable = false }: { proxied?: boolean; cuttable?: boolean },
): Promise<NatsCluster> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const servers: Record<'port' | 'route' | 'monitor', number>[] = []
  while (servers.length < 3) {
    servers.push({ port: await freePort(), route: await freePort(), monitor: await freePort() })
  }
  /** The proxies between the servers, by the server that connects and the one that it connects to. */
  const links: { from: number; to: number; proxy: FaultyProxy }[] = []
  const routesOf = async (from: number) => {
    const addresses = servers.map(({ route }) => `127.0.0.1:${route}`)
    for (const [to, address] of addresses.entries()) {
      if (!cuttable || to === from) continue
      const proxy = started.use(await startFaultyProxy(address))
      links.push({ from, to, proxy })
      addresses[to] = proxy.address
    }
    return addresses.map((address) => `nats://${address}`).join(',')
  }
  const configuration = `${folder.path}/accounts.conf`
  await writeFile(configuration, natsTestConfiguration)
  const proxies: FaultyProxy[] = []
  const nodes: NatsNode[] = []
  for (const [at, { port, route, monitor }] of servers.entries()) {
    const proxy = proxied ? started.use(await startFaultyProxy(`127.0.0.1:${port}`)) : undefined
    if (proxy) proxies.push(proxy)
    const name = `n${at + 1}`
    const storeDir = `${folder.path}/${name}`
    const addresses = ['-a', '127.0.0.1', '-p', String(port), '-m', String(monitor)]
    const routes = await routesOf(at)
    const cluster = ['--cluster_name', 'test', '--cluster', `nats://127.0.0.1:${route}`, '--routes', routes]
    // The servers must not find ways around the proxies.
    if (cuttable) cluster.push('--cluster_advertise', '127.0.0.1:1')
    const ownLinks = () => links.filter(({ from, to }) => from === at || to === at)
    const advertised = proxy ? ['--client_advertise', proxy.address] : []
    const launch = () =>
      startServerProcess({
        command: program,
        args: [
          ...addresses,
          ...cluster,
          ...advertised,
          '-n',
          name,
          '-c',
          configuration,
          '-js',
          '-sd',
          storeDir,
        ],
        env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' },
        logFile: `${folder.path}/${name}.log`,
        stopSignal: 'SIGTERM',
      })
    let server = await launch()
    started.defer(() => server.stop())
    nodes.push({
      storeDir,
      kill: () => server.stop({ signal: 'SIGKILL' }),
      async start() {
        server = await launch()
      },
      cutOff: () => ownLinks().forEach(({ proxy }) => proxy.refuse()),
      rejoin: () => ownLinks().forEach(({ proxy }) => proxy.flow()),
    })
  }
  await eventually(async () => (await Promise.all(servers.map(knowsAll))).every(Boolean), {
    timeoutMs: formingMs,
  })
  const running = started.move()
  return {
    urls: servers.map(({ port }, at) => `nats://${proxies[at]?.address ?? `127.0.0.1:${port}`}`),
    directUrls: servers.map(({ port }) => `nats://127.0.0.1:${port}`),
    proxies,
    nodes,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Whether a server knows the leader and both other servers. */
async function knowsAll({ monitor }: { monitor: number }): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${monitor}/jsz`)
  const { meta_cluster: meta } = (await answer.json()) as {
    meta_cluster?: { leader?: string; cluster_size?: number }
  }
  return Boolean(meta?.leader) && meta?.cluster_size === 3
}
