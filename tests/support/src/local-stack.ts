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
  /** Beside DATA_DIR and GATEWAY_PORT (0, a free one). */
  environment?: Record<string, string>
  /** Run through `npm start`, as a person would; else the script itself, which is quicker. */
  throughNpm?: boolean
}

/** What `npm start` runs, from outside: its output, its signals and the processes that it has started. */
export interface LocalStack extends AsyncDisposable {
  /** Of npm, or of the launcher if it runs without npm. */
  readonly pid: number
  /** All of its standard output, and of its standard error, so far. */
  readonly stdout: string
  readonly stderr: string
  /** What its ready line says; throws when it has ended before, with what it said. */
  ready(timeoutMs?: number): Promise<{ gateway: string; app_id: string; account_id: string }>
  /** The key that it has printed. */
  apiKey(): string
  /** It and all that it started, directly or not. */
  family(): Promise<ProcessIdentity[]>
  /** Sends the signal to this one process and returns how it ended: an exit code, or a signal's name. */
  end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null>
  /** How it ended, once it has. */
  readonly ended: Promise<number | NodeJS.Signals | null>
}

/** Starts a stack with the launcher of the checkout; disposing of it stops it. */
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
          throw new Error(`it is not ready:\n${stderr}`)
        },
        { timeoutMs },
      )
      if (line.found === undefined) throw new Error(`it ended before it was ready:\n${stderr}`)
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

/** Those of the processes that still run. */
export async function stillRunning(family: ProcessIdentity[]): Promise<string[]> {
  const left = []
  for (const each of family)
    if (await isRunning(each)) left.push(`${each.pid} ${await commandLineOf(each.pid)}`)
  return left
}

/** Drops what a stack has made on a server that it was configured to use. */
export async function dropStackDatabases(dataDir: string, serverUrl: string): Promise<void> {
  const { suffix } = await loadSecrets(dataDir, undefined)
  await dropDatabases({ serverUrl, suffix })
}

/** Linux alone: reads /proc. */
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
