import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Identifies a process permanently: the system reuses a pid, but not a pid with the same start time. */
export interface ProcessIdentity {
  pid: number
  /** Start time, in a format of the system: only compare it for equality. */
  startedAt: string
}

/** The identity of a running process; undefined if no process has this pid, or only a zombie. */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  if (process.platform !== 'linux') {
    const startedAt = await ps(pid, 'lstart=')
    return startedAt === '' ? undefined : { pid, startedAt }
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The second field is the name in brackets. The name may contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, startedAt] = [fields[0], fields[19]]
  if (startedAt === undefined || state === 'Z' || state === 'X') return undefined
  return { pid, startedAt }
}

/** Whether exactly this process still runs. */
export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  const found = await identityOf(identity.pid)
  return found?.startedAt === identity.startedAt
}

/** The arguments of a process, joined by spaces; empty when there is no such process. */
export async function commandLineOf(pid: number): Promise<string> {
  if (process.platform !== 'linux') return ps(pid, 'command=')
  const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return raw.replaceAll('\0', ' ').trim()
}

/**
 * Stops a process that is not a child of this one: `signal` first, SIGKILL after `graceMs`.
 * Returns when it has ended; throws if it does not end.
 */
export async function stopProcess(
  identity: ProcessIdentity,
  signal: NodeJS.Signals,
  graceMs: number,
): Promise<void> {
  for (const [each, waitMs] of [[signal, graceMs] as const, ['SIGKILL', 5_000] as const]) {
    if (!(await isRunning(identity))) return
    try {
      process.kill(identity.pid, each)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
    for (const until = Date.now() + waitMs; Date.now() < until; await sleep(20)) {
      if (!(await isRunning(identity))) return
    }
  }
  throw new Error(`process ${identity.pid} does not end`)
}

async function ps(pid: number, column: string): Promise<string> {
  const { stdout } = await run('ps', ['-o', column, '-p', String(pid)]).catch(() => ({ stdout: '' }))
  return stdout.trim()
}
