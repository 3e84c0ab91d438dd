import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort, isPortFree } from '@licensing/local-servers/ports'
import { newApiKey } from '@licensing/local-servers/secrets'
import {
  CHECKOUT,
  DATABASE_SERVICES,
  type DatabaseService,
  type ServiceName,
} from '@licensing/local-servers/services'
import { apiClient, demoAccount } from './api-client.ts'
import { addressOf, docker, hostAddress, inspect, portOf } from './docker.ts'
import { eventually } from './poll.ts'
import type { Ended, Stack, StackOptions } from './stack-shape.ts'
import { startSimulator } from './stripe-simulator.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'
import type { TestProcess } from './test-process.ts'

const composeFile = join(CHECKOUT, 'deploy/compose.yaml')

/**
 * Starts the stack of the compose file as its own project, with only the environment that an operator would set. It needs
 * Linux, because tests and containers connect to each other by their addresses.
 *
 * @param tag the tag of the images `licensing/<service>`
 */
export async function startComposeStack(options: StackOptions, tag: string): Promise<Stack> {
  if (options.release !== undefined || options.postgresUrl !== undefined) {
    throw new Error('the compose file supports neither another release nor another PostgreSQL')
  }
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const apiKey = newApiKey()
  const gateways = options.replicas?.gateway ?? 1
  const port = await freePorts(gateways)
  const simulator = options.simulator
    ? started.use(await startSimulator(`http://127.0.0.1:${port}`, folder.path))
    : undefined
  const operator = {
    WEBHOOK_ALLOWED_CIDRS: `${await hostAddress()}/32`,
    STRIPE_WEBHOOK_SECRET: 'whsec_of_the_test',
    PROCESSOR_CLAIM: 'direct',
    ...(options.receiver && { WEBHOOK_CA_FILE: options.receiver.caFile }),
    ...simulator?.environment,
    ...options.environment,
  }
  await expectKnown(Object.keys(operator))
  const environment = {
    ...operator,
    VERSION: tag,
    BOOTSTRAP_API_KEY: apiKey,
    GATEWAY_PORT: gateways === 1 ? String(port) : `${port}-${port + gateways - 1}`,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
  }
  const project = `licensing-t${randomBytes(6).toString('hex')}`
  const compose: Compose = (...args) => docker(['compose', ...optionsOf(project), ...args], environment)
  const scale = Object.entries(options.replicas ?? {}).flatMap(([name, n]) => ['--scale', `${name}=${n}`])
  started.defer(async () => void (await compose('down', '--volumes', '--timeout', '30')))
  await compose('up', '--detach', '--no-build', ...scale)

  const processes = {
    catalog: await processesOf(compose, 'catalog'),
    licensing: await processesOf(compose, 'licensing'),
    billing: await processesOf(compose, 'billing'),
    notifier: await processesOf(compose, 'notifier'),
    gateway: await processesOf(compose, 'gateway'),
  }
  for (const process of Object.values(processes).flat()) await process.untilReady(120_000)
  const published = (await containersOf(compose, 'gateway')).map((id) => portOf(id, 8080))
  const ports = await Promise.all(published)
  // The engine gives a port of the range to each replica. PUBLIC_URL has the lowest.
  const byPort = ports.map((_, at) => at).sort((a, b) => ports[a]! - ports[b]!)
  processes.gateway = byPort.map((at) => processes.gateway[at]!)
  const gatewayUrls = byPort.map((at) => `http://127.0.0.1:${ports[at]}`)
  const gatewayUrl = gatewayUrls[0] as string
  const api = apiClient(gatewayUrl, apiKey)
  const { accountId, appId } = await eventually(() => demoAccount(api))
  const [postgres] = await containersOf(compose, 'postgres')
  const postgresAddress = await addressOf(postgres as string)
  const databaseUrls = DATABASE_SERVICES.map((service) => {
    const url = new URL(processes[service][0]?.environment['DATABASE_URL'] ?? '')
    url.hostname = postgresAddress
    return [service, url.href]
  })
  const running = started.move()
  const stack = {
    gatewayUrl,
    gatewayUrls,
    accountId,
    appId,
    apiKey,
    api,
    processes,
    databaseUrls: Object.fromEntries(databaseUrls) as Record<DatabaseService, string>,
    simulator,
    runCommands: (commands) => runCommands(project, commands, environment, folder.path),
    runAdmin: async (args) => runAdmin((await containersOf(compose, 'catalog'))[0]!, args),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  } satisfies Omit<Stack, 'nats'>
  // Not enumerable, so that copying a stack does not read it.
  const nats = () => {
    throw new Error('tests cannot use the NATS of a compose stack')
  }
  return Object.defineProperty(stack, 'nats', { get: nats }) as unknown as Stack
}

type Compose = (...args: string[]) => Promise<string>

const optionsOf = (project: string) => [
  '--env-file',
  '/dev/null',
  '--project-name',
  project,
  '--file',
  composeFile,
]

/** Runs the operator's commands from the runbook in a folder of the stack. `dc` is docker compose. @returns their output */
async function runCommands(
  project: string,
  commands: string,
  environment: Record<string, string>,
  cwd: string,
): Promise<string> {
  const script = `dc() { docker compose ${optionsOf(project).join(' ')} "$@"; }\n${commands}`
  const { PATH = '', HOME = '', DOCKER_HOST, DOCKER_CONTEXT } = process.env
  const env = { PATH, HOME, DOCKER_HOST, DOCKER_CONTEXT, COMPOSE_PROJECT_NAME: project, ...environment }
  const options = ['--norc', '-euo', 'pipefail', '-c', script]
  return (await promisify(execFile)('bash', options, { cwd, env })).stdout
}

/** As the compose file tells an operator to run it. */
async function runAdmin(container: string, args: string[]): Promise<Ended> {
  const command = ['exec', container, 'with-secrets', 'licensing-admin', ...args]
  try {
    return { code: 0, ...(await promisify(execFile)('docker', command)) }
  } catch (error) {
    const { code, stdout, stderr } = error as Ended
    if (typeof code !== 'number') throw error
    return { code, stdout, stderr }
  }
}

async function containersOf(compose: Compose, service: string): Promise<string[]> {
  return (await compose('ps', '--quiet', service)).split('\n')
}

async function processesOf(compose: Compose, service: ServiceName): Promise<TestProcess[]> {
  const ids = await containersOf(compose, service)
  const secrets = await compose('exec', '--no-TTY', service, 'with-secrets', 'env')
  const given = secrets.split('\n').flatMap((line) => {
    const [, name, value] = /^(DATABASE_URL|ENCRYPTION_KEY|PORTAL_SESSION_KEY)=(.+)$/.exec(line) ?? []
    return name === undefined || value === undefined ? [] : [[name, value] as const]
  })
  return Promise.all(
    ids.map((id, index) => composeProcess(`${service}-${index + 1}`, id, Object.fromEntries(given))),
  )
}

/** Throws if the compose file does not pass on a variable, which would otherwise be ignored silently. */
async function expectKnown(names: string[]): Promise<void> {
  const text = await readFile(composeFile, 'utf8')
  const unknown = names.filter((name) => !text.includes('${' + name + ':'))
  if (unknown.length > 0) throw new Error(`deploy/compose.yaml does not pass on ${unknown.join(', ')}`)
}

/** The first of `count` consecutive free ports. */
async function freePorts(count: number): Promise<number> {
  for (;;) {
    const first = await freePort()
    const ports = Array.from({ length: count }, (_, at) => first + at)
    if ((await Promise.all(ports.map(isPortFree))).every(Boolean)) return first
  }
}

const operationsPort = 9090

/**
 * A container of a compose stack that a test can stop, kill and start. The compose file defines its environment. It ends
 * with the stack.
 *
 * @param secrets the secrets in its environment that a test may use
 */
async function composeProcess(
  name: string,
  container: string,
  secrets: Record<string, string>,
): Promise<TestProcess> {
  // The address changes at each start.
  let address = await addressOf(container)
  const isRunning = async () => (await inspect(container, '{{.State.Running}}')) === 'true'
  const untilReady = async (timeoutMs = 120_000) => {
    await eventually(
      async () => {
        const response = await fetch(`http://${address}:${operationsPort}/readyz`).catch(() => undefined)
        if (response?.ok !== true) throw new Error(`${name} is not ready: ${await response?.text()}`)
      },
      { timeoutMs, intervalMs: 100 },
    )
  }
  return {
    name,
    // On this machine. The container's own first process is the init of the engine.
    get pid() {
      const init = execFileSync('docker', ['inspect', '--format', '{{.State.Pid}}', container], {
        encoding: 'utf8',
      }).trim()
      return Number(readFileSync(`/proc/${init}/task/${init}/children`, 'utf8'))
    },
    get environment() {
      return { ...secrets, METRICS_ADDRESS: `${address}:${operationsPort}` }
    },
    get operationsUrl() {
      return `http://${address}:${operationsPort}`
    },
    log: async () => {
      const printed = await promisify(execFile)('docker', ['logs', container], {
        maxBuffer: 64 * 1024 * 1024,
      })
      return printed.stdout + printed.stderr
    },
    stop: async () => {
      if (await isRunning()) await docker(['stop', '--time', '30', container])
      return `exit code ${await inspect(container, '{{.State.ExitCode}}')}`
    },
    kill: async (signal = 'SIGKILL') => {
      await docker(['kill', '--signal', signal, container])
      await docker(['wait', container])
    },
    freeze: () => void docker(['pause', container]),
    resume: () => void docker(['unpause', container]),
    start: async (changes = {}, release) => {
      if (Object.keys(changes).length > 0 || release !== undefined) {
        throw new Error('a container of a compose stack cannot be restarted with changes')
      }
      await docker([(await isRunning()) ? 'restart' : 'start', container])
      address = await addressOf(container)
      await untilReady()
    },
    untilReady,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
