import { startNode, untilReady, type NodeProcess } from '@licensing/local-servers/node-process'
import { mainOf, type ServiceName } from '@licensing/local-servers/services'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleEnvironment, mainIn } from './bundles.ts'
import { startServiceContainer } from './service-container.ts'
import type { ServiceOptions, TestProcess } from './test-process.ts'

/**
 * Starts a service and returns when it is ready. It runs the sources, in a run of all tests the bundle that is also in the
 * image, or with TEST_IMAGES (a tag, such as `local`) the image.
 *
 * @param environment the whole environment, as the service's config describes it
 * @param folder the folder for its log
 */
export async function startService(
  service: ServiceName,
  environment: Record<string, string>,
  folder: string,
  options: ServiceOptions = {},
): Promise<TestProcess> {
  // A service that a test starts alone has no peers, and so no keys of callers.
  environment = { CALLER_CHECK: 'off', ...environment }
  const tag = process.env['TEST_IMAGES']
  if (tag) return startServiceContainer(service, tag, environment, folder, options)
  const { waitMs = 120_000, name = service } = options
  let current = environment
  let release = options.release ?? process.env['TEST_RELEASE']
  const operationsUrl = () =>
    `http://${(service === 'gateway' ? current['HTTP_ADDRESS'] : undefined) ?? current['METRICS_ADDRESS']}`
  const logFile = join(folder, `${name}.log`)
  const launch = () => {
    const main = release === undefined ? mainOf(service) : mainIn(release, service)
    const own = { PATH: process.env['PATH'] ?? '', ...(release && bundleEnvironment(release)) }
    return startNode(name, main, { ...own, ...current }, logFile)
  }
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
    untilReady: (timeoutMs = 120_000) => ready(timeoutMs),
    [Symbol.asyncDispose]: async () => {
      // A frozen process would not handle the signal.
      if (node.server.endedBy() === undefined) process.kill(node.server.pid, 'SIGCONT')
      await node.server.stop({ graceMs: 30_000 })
    },
  }
}
