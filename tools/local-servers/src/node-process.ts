import { join } from 'node:path'
import { retry } from '@licensing/process/retry'
import { lastLines, startServerProcess, type ServerProcess } from './server-process.ts'
import { CHECKOUT } from './services.ts'

/**
 * For the environment of our programs. With this cache, Node strips types and compiles once instead of at every start.
 * Measured: it saves a third of a service's start, and half of the time of a command.
 */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(CHECKOUT, 'node_modules', '.cache', 'node-compile') }

/**
 * A flag of our programs: half of V8's default, which saves 32 MiB in every busy process. Measured: a request takes the
 * same CPU time as with the default, and 14 to 33 % more with 8. The flag can only be set when a process starts. The images
 * set the same value.
 */
export const YOUNG_GENERATION = '--max-semi-space-size=16'

// Each poll costs a millisecond in both processes, which are busy while one of them starts.
const readyPollMs = 200

/** One of our own programs, running. */
export interface NodeProcess {
  name: string
  server: ServerProcess
  logFile: string
}

/**
 * Starts one of our programs with exactly this environment. Its output goes to `logFile`. It ends when this process ends,
 * even if this process is killed.
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
 * @param timeoutMs Infinity waits as long as the process runs
 * @param notReady is called with each answer other than 200
 * @param signal ends the wait, with its reason
 * @throws if the process ends or is not ready after `timeoutMs`, with the end of its log and, in the second case, its last
 *   answer
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

/** Calls `work` again, at most twice, if a port that it chose was taken by another program. */
export function retryTakenPorts<Result>(work: () => Promise<Result>): Promise<Result> {
  const isRetried = (error: unknown, failures: number) =>
    error instanceof NotReadyError && error.portTaken && failures < 3 && 'at once'
  return retry(work, { firstMs: 0, maxMs: 0, isRetried })
}

export class NotReadyError extends Error {
  override name = 'NotReadyError'
  /** Another process has taken the port. The caller can try another port. */
  readonly portTaken: boolean

  constructor(node: Pick<NodeProcess, 'name' | 'logFile'>, problem: string, log: string) {
    super(`${node.name} ${problem}; its log ${node.logFile} ends with:\n${log}`)
    this.portTaken = log.includes('EADDRINUSE')
  }
}
