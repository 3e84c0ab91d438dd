import { newApiKey } from '@licensing/local-servers/secrets'
import { freePort } from '@licensing/local-servers/ports'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DockerComposeEnvironment, Wait } from 'testcontainers'

/** A licensing service of your own, for a test suite. */
export interface RunningLicensing extends AsyncDisposable {
  /** Of the REST API, without a slash at the end. */
  url: string
  /** Has all four scopes. */
  apiKey: string
  /** An application of the key's account. */
  appId: string
  /**
   * How it calls this machine, for the URL of a webhook receiver: `https://${host}:8443/hook`. On containers a receiver
   * on Linux has to listen on more than the loopback address.
   */
  host: 'localhost' | 'host.docker.internal'
  /** What it runs on. */
  on: 'containers' | 'processes'
  stop(): Promise<void>
}

export interface LicensingOptions {
  /**
   * What an operator would set, such as SWEEP_INTERVAL_SECONDS, or WEBHOOK_CA_FILE for your receiver's certificate.
   * Private networks are admitted unless WEBHOOK_ALLOWED_CIDRS says otherwise.
   */
  environment?: Record<string, string>
  /** Containers of the images `licensing/*:<version>`, or processes; by itself it looks whether there is an engine. */
  on?: 'containers' | 'processes'
  /** Tag of the images, `local` when absent. */
  version?: string
}

const privateNetworks = '127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16'
const checkout = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * Starts a whole licensing service, empty but for one account, application and key. With a container engine and the
 * images there it runs on those, else on embedded servers; nothing of it outlives the tests.
 *
 * @example
 * const licensing = await startLicensing()
 * after(() => licensing.stop())
 * const client = createClient({ baseUrl: licensing.url, apiKey: licensing.apiKey })
 */
export async function startLicensing(options: LicensingOptions = {}): Promise<RunningLicensing> {
  const version = options.version ?? process.env['TEST_IMAGES'] ?? 'local'
  const on = options.on ?? ((await imagesThere(version)) ? 'containers' : 'processes')
  const environment = {
    WEBHOOK_ALLOWED_CIDRS: privateNetworks,
    PROCESSOR_CLAIM: 'direct',
    ...options.environment,
    BOOTSTRAP_API_KEY: newApiKey(),
  }
  const { url, stop } =
    on === 'containers' ? await startContainers(environment, version) : await startProcesses(environment)
  try {
    const apiKey = environment.BOOTSTRAP_API_KEY
    const answer = await fetch(`${url}/v1/apps`, { headers: { authorization: `Bearer ${apiKey}` } })
    const { data } = (await answer.json()) as { data: { id: string }[] }
    const host = on === 'containers' ? 'host.docker.internal' : 'localhost'
    return { url, apiKey, appId: data[0]!.id, host, on, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function imagesThere(version: string): Promise<boolean> {
  const images = ['gateway', 'catalog', 'licensing', 'billing', 'notifier']
  const names = images.map((name) => `licensing/${name}:${version}`)
  return promisify(execFile)('docker', ['image', 'inspect', ...names], { timeout: 10_000 }).then(
    () => true,
    () => false,
  )
}

type Started = Pick<RunningLicensing, 'url' | 'stop'>

async function startContainers(environment: Record<string, string>, version: string): Promise<Started> {
  const port = await freePort()
  const healthy = ['postgres', 'nats', 'catalog', 'licensing', 'billing', 'notifier', 'gateway']
  let compose = new DockerComposeEnvironment(join(checkout, 'deploy'), 'compose.yaml')
    .withEnvironment({ ...environment, VERSION: version, GATEWAY_PORT: String(port) })
    .withStartupTimeout(120_000)
    .withWaitStrategy('secrets-1', Wait.forOneShotStartup())
  for (const name of healthy) compose = compose.withWaitStrategy(`${name}-1`, Wait.forHealthCheck())
  const running = await compose.up()
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => void (await running.down({ removeVolumes: true, timeout: 30_000 })),
  }
}

async function startProcesses(environment: Record<string, string>): Promise<Started> {
  const dataDir = await mkdtemp(join(tmpdir(), 'licensing-'))
  const start = spawn(process.execPath, [join(checkout, 'deploy/local/src/start.ts')], {
    env: { ...process.env, ...environment, GATEWAY_PORT: '0', DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(start, 'exit')
  const stop = async () => {
    start.kill('SIGTERM')
    await ended
    await rm(dataDir, { recursive: true, force: true })
  }
  const ready = async () => {
    for await (const line of createInterface(start.stdout)) {
      if (line.startsWith('ready ')) return (JSON.parse(line.slice(6)) as { gateway: string }).gateway
    }
    throw new Error('the licensing service ended before it was ready')
  }
  try {
    const url = await ready()
    start.stdout.resume()
    return { url, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
