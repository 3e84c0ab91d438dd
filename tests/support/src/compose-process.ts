import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { addressOf, docker, inspect } from './docker.ts'
import { eventually } from './poll.ts'
import type { TestProcess } from './test-process.ts'

const operationsPort = 9090

/**
 * A container of a compose stack, to stop, kill and start. What it runs in is the compose file's to say, and its end
 * comes with the stack's.
 *
 * @param secrets what a test may know of its environment
 */
export async function composeProcess(
  name: string,
  container: string,
  secrets: Record<string, string>,
): Promise<TestProcess> {
  // Another one each time that it starts.
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
    get pid(): number {
      throw new Error('a container has no process id here')
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
        throw new Error('a container of a compose stack starts again as it was')
      }
      await docker([(await isRunning()) ? 'restart' : 'start', container])
      address = await addressOf(container)
      await untilReady()
    },
    untilReady,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
