import {
  commandLineOf,
  identityOf,
  isRunning,
  type ProcessIdentity,
} from '@licensing/local-servers/process-table'
import { COMPILE_CACHE, YOUNG_GENERATION } from '@licensing/local-servers/node-process'
import { dropDatabases } from '@licensing/local-servers/databases'
import { loadSecrets } from '@licensing/local-servers/secrets'
import { CHECKOUT } from '@licensing/local-servers/services'
import { spawn } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { eventually } from './poll.ts'

interface LocalStackOptions {
  dataDir: string
  /** Variables in addition to DATA_DIR and GATEWAY_PORT (0: a free port). */
  environment?: Record<string, string>
  /** Whether to run `npm start`. Otherwise it runs the script directly, which is faster. */
  throughNpm?: boolean
}

/** A stack of `npm start` as seen from outside: its output, signals and processes. */
export interface LocalStack extends AsyncDisposable {
  /** Process id of npm, or of the launcher if it runs without npm. */
  readonly pid: number
  /** Standard output and standard error so far. */
  readonly stdout: string
  readonly stderr: string
  /** Waits for the ready line and returns its content. Throws with the output if the stack ends before. */
  ready(timeoutMs?: number): Promise<{ gateway: string; app_id: string; account_id: string }>
  /** The printed API key. */
  apiKey(): string
  /** The process and all its descendants. */
  family(): Promise<ProcessIdentity[]>
  /** Sends a signal to only this process, and returns its exit code or the signal that ended it. */
  end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null>
  /** Resolves when it has ended, with its exit code or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>
}

/** Starts a stack with the launcher of this checkout. Disposing stops it. */
export function startLocalStack(options: LocalStackOptions): LocalStack {
  const { PATH = '', HOME = '' } = process.env
  const [command, args] = options.throughNpm
    ? ['npm', ['start']]
    : [process.execPath, [YOUNG_GENERATION, 'deploy/local/src/start.ts']]
  const child = spawn(command, args, {
    cwd: CHECKOUT,
    env: {
      PATH,
      HOME,
      ...COMPILE_CACHE,
      GATEWAY_PORT: '0',
      DATA_DIR: options.dataDir,
      ...options.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString('utf8')))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString('utf8')))
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? signal))
  })
  const pid = child.pid as number
  const stack: LocalStack = {
    pid,
    ended,
    get stdout() {
      return stdout
    },
    get stderr() {
      return stderr
    },
    ready: async (timeoutMs = 150_000) => {
      const line = await eventually(
        () => {
          const found = /^ready (.*)$/m.exec(stdout)?.[1]
          if (found !== undefined || child.exitCode !== null || child.signalCode !== null) return { found }
          throw new Error(`the stack is not ready:\n${stderr}`)
        },
        { timeoutMs },
      )
      if (line.found === undefined) throw new Error(`the stack ended before it was ready:\n${stderr}`)
      return JSON.parse(line.found) as Awaited<ReturnType<LocalStack['ready']>>
    },
    apiKey: () => /lsk_[\x21-\x26\x28-\x7e]{36,}/.exec(stdout)?.[0] ?? '',
    family: () => familyOf(pid),
    end: (signal) => {
      child.kill(signal)
      return ended
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      await ended
    },
  }
  return stack
}

/** The processes of the family that still run. */
export async function stillRunning(family: ProcessIdentity[]): Promise<string[]> {
  const left = []
  for (const each of family)
    if (await isRunning(each)) left.push(`${each.pid} ${await commandLineOf(each.pid)}`)
  return left
}

/** Drops the databases that a stack created on an external server. */
export async function dropStackDatabases(dataDir: string, serverUrl: string): Promise<void> {
  const { suffix } = await loadSecrets(dataDir, undefined)
  await dropDatabases({ serverUrl, suffix })
}

/** A process and its descendants. It reads /proc, so it works only on Linux. */
async function familyOf(root: number): Promise<ProcessIdentity[]> {
  const children = new Map<number, number[]>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const family: ProcessIdentity[] = []
  for (const open = [root]; open.length > 0;) {
    const pid = open.pop() as number
    const identity = await identityOf(pid)
    if (identity !== undefined) family.push(identity)
    open.push(...(children.get(pid) ?? []))
  }
  return family
}
