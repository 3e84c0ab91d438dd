import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile, stat, truncate } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const LOG_LIMIT_BYTES = 20 * 1024 * 1024

export interface ServerCommand {
  command: string
  args: string[]
  env: Record<string, string>
  /** Standard output and error are appended to this file. If it is larger than 20 MiB at the start, it is truncated. */
  logFile: string
  /** The signal that makes the server shut down. */
  stopSignal: NodeJS.Signals
  /** User and group of the server; by default those of this process. */
  user?: { uid?: number; gid?: number }
}

/** A running server. It ends when this process ends, even if this process is killed. */
export interface ServerProcess {
  readonly pid: number
  /** Resolves when the server has ended, with its exit code or signal as text. */
  readonly ended: Promise<string>
  /** The exit code or signal as text; undefined while the server runs. */
  endedBy(): string | undefined
  /** The part of the log since this start, trimmed. */
  written(): Promise<string>
  /** Sends `signal`, by default the stop signal, then SIGKILL after `graceMs`. Returns when the server has ended. */
  stop(options?: { signal?: NodeJS.Signals; graceMs?: number }): Promise<void>
}

/**
 * Starts a server in a process group of its own, so that Ctrl-C in the terminal reaches only this process, which then shuts
 * the server down. Throws if the program cannot be started.
 */
export async function startServerProcess(server: ServerCommand): Promise<ServerProcess> {
  const before = await truncateLog(server.logFile)
  const log = openSync(server.logFile, 'a', 0o644)
  const child = spawn(server.command, server.args, {
    cwd: '/',
    detached: true,
    env: server.env,
    stdio: ['ignore', log, log],
    ...server.user,
  })
  closeSync(log)
  await once(child, 'spawn')
  child.unref()
  const pid = child.pid as number
  const watchdog = startWatchdog(pid, server.stopSignal)
  let endedBy: string | undefined
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      endedBy = signal ?? `exit code ${code}`
      watchdog.kill('SIGKILL')
      resolve(endedBy)
    })
  })
  return {
    pid,
    ended,
    endedBy: () => endedBy,
    written: async () => {
      const log = await readFile(server.logFile).catch(() => Buffer.alloc(0))
      return log.subarray(before).toString().trim()
    },
    stop: async ({ signal = server.stopSignal, graceMs = 20_000 } = {}) => {
      if (endedBy !== undefined) return
      child.ref()
      child.kill(signal)
      const grace = new AbortController()
      void sleep(graceMs, undefined, { signal: grace.signal }).then(
        () => child.kill('SIGKILL'),
        () => undefined,
      )
      await ended
      grace.abort()
    },
  }
}

/** The end of a log, for an error message. */
export function lastLines(text: string, lines = 5): string {
  return text.split('\n').slice(-lines).join('\n')
}

// The watchdog's standard input is a pipe that only this process holds. When this process ends, even by kill -9, the pipe
// closes and the watchdog stops the server. A pipe works on every system; prctl(PR_SET_PDEATHSIG) exists only on Linux.
const WATCHDOG = `
read -r _
kill -s "$2" "$1" 2>/dev/null || exit 0
i=0
while [ "$i" -lt 100 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
kill -s KILL "$1" 2>/dev/null
`

function startWatchdog(pid: number, stopSignal: NodeJS.Signals): ChildProcess {
  const watchdog = spawn('sh', ['-c', WATCHDOG, 'watchdog', String(pid), stopSignal.replace('SIG', '')], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Without a shell there is no watchdog. Then only a kill -9 of this process leaves the server running.
  watchdog.on('error', () => undefined)
  watchdog.stdin.on('error', () => undefined)
  watchdog.unref()
  const pipe: unknown = watchdog.stdin
  ;(pipe as { unref(): void }).unref()
  return watchdog
}

/**
 * Truncates a log that grew over 20 MiB.
 *
 * @returns its size
 */
export async function truncateLog(logFile: string): Promise<number> {
  const { size } = await stat(logFile).catch(() => ({ size: 0 }))
  if (size <= LOG_LIMIT_BYTES) return size
  await truncate(logFile)
  return 0
}
