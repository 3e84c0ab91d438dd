import type { ServiceName } from '@licensing/local-servers/services'
import { createWriteStream, existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { GenericContainer, getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers'
import { eventually } from './poll.ts'
import type { ServiceOptions, TestProcess } from './test-process.ts'

/** A container of a service's image with the same restrictions as on Kubernetes: no root, a read-only file system, no capability. */
class ServiceContainer extends GenericContainer {
  constructor(image: string, environment: Record<string, string>) {
    super(image)
    this.hostConfig.ReadonlyRootfs = true
    this.withNetworkMode('host')
      .withUser('1000:1000')
      .withDroppedCapabilities('ALL')
      .withSecurityOpt('no-new-privileges:true')
      .withEnvironment(environment)
      .withBindMounts(
        Object.values(environment)
          .filter((value) => value.startsWith('/') && existsSync(value))
          .map((path) => ({ source: path, target: path, mode: 'ro' as const })),
      )
      .withWaitStrategy(new AtOnce())
  }
}

/** A wait strategy that does not wait, because the test itself polls readiness. */
class AtOnce {
  waitUntilReady = () => Promise.resolve()
  withStartupTimeout = () => this
  isStartupTimeoutSet = () => true
  getStartupTimeout = () => 60_000
}

/**
 * Starts a service like `startService`, but from its image. It uses the host's network, so that addresses are the same.
 *
 * @param tag the tag of the image `licensing/<service>`
 */
export async function startServiceContainer(
  service: ServiceName,
  tag: string,
  environment: Record<string, string>,
  folder: string,
  options: ServiceOptions = {},
): Promise<TestProcess> {
  const { waitMs = 120_000, name = service } = options
  const { container: client } = await getContainerRuntimeClient()
  const logFile = join(folder, `${name}.log`)
  let current = environment
  let release = options.release ?? tag
  const operationsUrl = () =>
    `http://${(service === 'gateway' ? current['HTTP_ADDRESS'] : undefined) ?? current['METRICS_ADDRESS']}`
  const launch = () =>
    new ServiceContainer(`licensing/${service}:${release}`, current)
      .withLogConsumer((stream) => stream.pipe(createWriteStream(logFile, { flags: 'a' }), { end: false }))
      .start()
  let running: StartedTestContainer = await launch()
  const handle = () => client.getById(running.getId())
  const ended = async () => `exit code ${(await handle().inspect()).State.ExitCode}`
  const isRunning = async () => (await handle().inspect()).State.Running
  const untilReady = (timeoutMs = 120_000) =>
    eventually(
      async () => {
        const response = await fetch(`${operationsUrl()}/readyz`).catch(() => undefined)
        if (response?.ok !== true) throw new Error(`${name} is not ready; its log is ${logFile}`)
      },
      { timeoutMs },
    )
  const remove = () => handle().remove({ force: true, v: true })
  try {
    if (waitMs > 0) await untilReady(waitMs)
  } catch (error) {
    await remove()
    throw error
  }
  return {
    name,
    get pid(): number {
      throw new Error('a container has no process id here')
    },
    get environment() {
      return current
    },
    get operationsUrl() {
      return operationsUrl()
    },
    log: () => readFile(logFile, 'utf8'),
    stop: async () => {
      if (await isRunning()) await handle().stop({ t: 30 })
      return ended()
    },
    kill: async (signal = 'SIGKILL') => {
      await handle().kill({ signal })
      await handle().wait()
    },
    freeze: () => void handle().pause(),
    resume: () => void handle().unpause(),
    start: async (changes = {}, next = release) => {
      if (await isRunning()) await handle().stop({ t: 30 })
      await remove()
      current = { ...current, ...changes }
      release = next
      running = await launch()
      if (waitMs > 0) await untilReady(waitMs)
    },
    untilReady,
    [Symbol.asyncDispose]: async () => {
      if ((await handle().inspect()).State.Paused) await handle().unpause()
      if (await isRunning()) await handle().stop({ t: 30 })
      await remove()
    },
  }
}
