import { startNode, untilReady, type NodeProcess } from '@licensing/local-servers/node-process'
import { mainOf, type ServiceName } from '@licensing/local-servers/services'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startServiceContainer } from './service-container.ts'

/** One of our services as a process of its own, that a test can stop, kill and start again. */
export interface TestProcess extends AsyncDisposable {
  readonly name: string
  readonly pid: number
  /** The environment it runs in. */
  readonly environment: Readonly<Record<string, string>>
  /** `http://host:port` where /readyz, /healthz and /metrics are. */
  readonly operationsUrl: string
  /** What it has logged so far, over all its starts. */
  log(): Promise<string>
  /** SIGTERM; answers what ended it: `exit code 0` when it stopped cleanly. */
  stop(): Promise<string>
  /** kill -9, or another signal; returns when it is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** SIGSTOP: alive, but answers nothing; `resume` lets it go on. */
  freeze(): void
  resume(): void
  /** Starts it again, with changes to its environment or another release, and returns when it is ready. */
  start(changes?: Record<string, string>, release?: string): Promise<void>
  /** Returns when /readyz answers 200; throws when that takes longer than `timeoutMs` (30 s). */
  untilReady(timeoutMs?: number): Promise<void>
}

export interface ServiceOptions {
  /** How long to wait for /readyz, 30 s when absent; 0 returns at once. */
  waitMs?: number
  name?: string
  /** A folder of bundles, or with TEST_IMAGES the tag of the images; what is in this checkout when absent. */
  release?: string
}

/**
 * Starts a service and returns when it is ready: its sources, or with TEST_IMAGES (a tag, such as
 * `local`) its image.
 *
 * @param environment all of it, as the service's config describes it
 * @param folder where its log goes
 */
export async function startService(
  service: ServiceName,
  environment: Record<string, string>,
  folder: string,
  options: ServiceOptions = {},
): Promise<TestProcess> {
  const tag = process.env['TEST_IMAGES']
  if (tag) return startServiceContainer(service, tag, environment, folder, options)
  const { waitMs = 30_000, name = service } = options
  let current = environment
  let release = options.release
  const operationsUrl = () =>
    `http://${(service === 'gateway' ? current['HTTP_ADDRESS'] : undefined) ?? current['METRICS_ADDRESS']}`
  const logFile = join(folder, `${name}.log`)
  const main = () => (release === undefined ? mainOf(service) : join(release, service, 'dist/src/main.mjs'))
  const launch = () => startNode(name, main(), { PATH: process.env['PATH'] ?? '', ...current }, logFile)
  let node: NodeProcess = await launch()
  const ready = async (timeoutMs: number) => untilReady(node, `${operationsUrl()}/readyz`, timeoutMs)
  try {
    if (waitMs > 0) await ready(waitMs)
  } catch (error) {
    await node.server.stop()
    throw error
  }
  return {
    name,
    get pid() {
      return node.server.pid
    },
    get environment() {
      return current
    },
    get operationsUrl() {
      return operationsUrl()
    },
    log: () => readFile(logFile, 'utf8'),
    stop: async () => {
      await node.server.stop({ graceMs: 30_000 })
      return node.server.ended
    },
    kill: (signal = 'SIGKILL') => node.server.stop({ signal }),
    freeze: () => void process.kill(node.server.pid, 'SIGSTOP'),
    resume: () => void process.kill(node.server.pid, 'SIGCONT'),
    start: async (changes = {}, next = release) => {
      await node.server.stop({ graceMs: 30_000 })
      current = { ...current, ...changes }
      release = next
      node = await launch()
      if (waitMs > 0) await ready(waitMs)
    },
    untilReady: (timeoutMs = 30_000) => ready(timeoutMs),
    [Symbol.asyncDispose]: async () => {
      // A frozen one would not hear the signal.
      if (node.server.endedBy() === undefined) process.kill(node.server.pid, 'SIGCONT')
      await node.server.stop({ graceMs: 30_000 })
    },
  }
}
