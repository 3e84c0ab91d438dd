import { join } from 'node:path'
import { lastLines, startServerProcess, type ServerProcess } from './server-process.ts'
import { CHECKOUT } from './services.ts'

/**
 * For the environment of our programs: TypeScript is stripped and compiled once, not at every start. Measured, a third of
 * the time until a service serves, and half of a command's.
 */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(CHECKOUT, 'node_modules', '.cache', 'node-compile') }

/**
 * A flag of our programs: half of V8's own limit, 32 MiB less in every process that has work to do. A request takes as
 * much CPU time as before; with 8 it takes 14 to 33 % more. It can only be set when a process starts; the images set the
 * same.
 */
export const YOUNG_GENERATION = '--max-semi-space-size=16'

// Each look costs a millisecond in two processes, which are busy with their start.
const readyPollMs = 200

/** One of our own programs, running. */
export interface NodeProcess {
  name: string
  server: ServerProcess
  logFile: string
}

/**
 * Starts one of our programs with exactly this environment; what it prints goes to `logFile`. It does not outlive
 * this process, whatever ends it.
 */
export async function startNode(
  name: string,
  main: string,
  env: Record<string, string>,
  logFile: string,
): Promise<NodeProcess> {
  const server = await startServerProcess({
    command: process.execPath,
    args: [YOUNG_GENERATION, main],
    env: { ...COMPILE_CACHE, ...env },
    logFile,
    stopSignal: 'SIGTERM',
  })
  return { name, server, logFile }
}

/**
 * Returns when `url` answers 200.
 *
 * @param timeoutMs Infinity: as long as the process runs
 * @param notReady receives each other answer
 * @param signal ends the wait, with its reason
 * @throws when the process ends before, or is not ready after `timeoutMs`; with the end of its log and, in the
 *   second case, its last answer
 */
export async function untilReady(
  node: NodeProcess,
  url: string,
  timeoutMs: number,
  { notReady, signal }: { notReady?: (answer: string) => void; signal?: AbortSignal } = {},
): Promise<void> {
  let answered = 'no answer'
  for (const until = Date.now() + timeoutMs; Date.now() < until;) {
    signal?.throwIfAborted()
    const ended = node.server.endedBy()
    if (ended !== undefined)
      throw new NotReadyError(node, `ended (${ended})`, lastLines(await node.server.written(), 12))
    const response = await fetch(url, { signal: AbortSignal.timeout(30_000) }).catch(() => undefined)
    if (response?.ok === true) {
      await response.body?.cancel()
      return
    }
    if (response !== undefined) {
      answered = await response.text()
      notReady?.(answered)
    }
    await new Promise((resolve) => setTimeout(resolve, readyPollMs))
  }
  throw new NotReadyError(
    node,
    `is not ready after ${timeoutMs / 1000} s (${answered})`,
    lastLines(await node.server.written(), 12),
  )
}

export class NotReadyError extends Error {
  override name = 'NotReadyError'
  /** Somebody else took its port; another one helps. */
  readonly portTaken: boolean

  constructor(node: Pick<NodeProcess, 'name' | 'logFile'>, problem: string, log: string) {
    super(`${node.name} ${problem}; its log ${node.logFile} ends with:\n${log}`)
    this.portTaken = log.includes('EADDRINUSE')
  }
}
