import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeAccessibleFolder } from '@licensing/local-servers/folders'
import {
  identityOf,
  isRunning,
  stopProcess,
  type ProcessIdentity,
} from '@licensing/local-servers/process-table'
import { writeSecretFile } from '@licensing/local-servers/secrets'
import type { DatabaseService } from '@licensing/local-servers/services'

/** Data about a running stack, for other programs that use its folder. */
export interface StackFile {
  /** Process of the launcher. */
  pid: number
  gateway: string
  accountId: string
  appId: string
  databaseUrls: Record<DatabaseService, string>
  natsUrl: string
  /** `host:port` of each service's gRPC. */
  grpc: Record<DatabaseService, string>
  /** The demo account's key, with all four scopes. */
  apiKey: string
  /** Address of the Stripe simulator; absent if a real Stripe is used. */
  simulatorUrl?: string | undefined
  /** Address of the simulated identity provider; absent if it was not asked for. */
  identityProviderUrl?: string | undefined
}

/** The data folder of a stack, used by one `npm start` at a time. */
export interface DataFolder extends AsyncDisposable {
  readonly path: string
  readonly logs: string
  /** Records a process, so that the next start finds it if this one is killed. */
  note(name: string, pid: number): Promise<void>
  /** Stores the addresses of the stack. */
  publish(stack: StackFile): Promise<void>
}

interface RecordedProcess extends ProcessIdentity {
  name: string
}

/**
 * Locks the folder and stops processes that a killed launcher left running.
 *
 * @param say receives a line for each of these processes
 * @throws Error if another launcher uses the folder
 */
export async function takeDataFolder(path: string, say: (line: string) => void): Promise<DataFolder> {
  await makeAccessibleFolder(path)
  const logs = join(path, 'logs')
  await makeAccessibleFolder(logs)
  const lock = tryFileLock(join(path, 'lock'))
  if (lock === undefined) {
    const holder = await readStackFile(path)
    const who = holder === undefined ? '' : ` (process ${holder.pid}, ${holder.gateway})`
    throw new Error(
      `another npm start uses ${path}${who}: stop it, or set DATA_DIR to another folder to run a second one`,
    )
  }
  try {
    await stopLeftovers(path, say)
  } catch (error) {
    lock.release()
    throw error
  }
  return dataFolder(path, logs, lock)
}

/**
 * Finds the stack that runs in a folder.
 *
 * @returns undefined if no launcher uses the folder, or its stack is not ready yet
 */
export async function findRunningStack(path: string): Promise<StackFile | undefined> {
  const stack = await readStackFile(path)
  if (stack === undefined) return undefined
  const lock = tryFileLock(join(path, 'lock'))
  lock?.release()
  return lock === undefined ? stack : undefined
}

function dataFolder(path: string, logs: string, lock: FileLock): DataFolder {
  const recorded = new Map<string, RecordedProcess>()
  let written: Promise<void> = Promise.resolve()
  return {
    path,
    logs,
    note: async (name, pid) => {
      const identity = await identityOf(pid)
      if (identity === undefined) return
      recorded.set(name, { name, ...identity })
      // Writes run one after another, because they write the same file.
      written = written.then(() =>
        writeSecretFile(processesFile(path), JSON.stringify([...recorded.values()])),
      )
      await written
    },
    publish: (stack) => writeSecretFile(stackFile(path), JSON.stringify(stack, undefined, 2)),
    [Symbol.asyncDispose]: async () => {
      await written
      await rm(stackFile(path), { force: true })
      await rm(processesFile(path), { force: true })
      lock.release()
    },
  }
}

/** Stops programs first and servers last, so that programs can finish their work. */
async function stopLeftovers(path: string, say: (line: string) => void): Promise<void> {
  await rm(stackFile(path), { force: true })
  const text = await readFile(processesFile(path), 'utf8').catch(() => '[]')
  const recorded = JSON.parse(text) as RecordedProcess[]
  const isServer = ({ name }: RecordedProcess) => name === 'postgres' || name === 'nats'
  for (const group of [recorded.filter((each) => !isServer(each)), recorded.filter(isServer)]) {
    await Promise.all(group.map((each) => stopLeftover(each, say)))
  }
}

async function stopLeftover(recorded: RecordedProcess, say: (line: string) => void): Promise<void> {
  if (!(await isRunning(recorded))) return
  say(`stopping ${recorded.name} (process ${recorded.pid}), left over from an npm start that was killed`)
  // On SIGTERM, PostgreSQL would wait for its clients.
  await stopProcess(recorded, recorded.name === 'postgres' ? 'SIGINT' : 'SIGTERM', 10_000)
}

async function readStackFile(path: string): Promise<StackFile | undefined> {
  const text = await readFile(stackFile(path), 'utf8').catch(() => undefined)
  return text === undefined ? undefined : (JSON.parse(text) as StackFile)
}

const stackFile = (path: string) => join(path, 'stack.json')
const processesFile = (path: string) => join(path, 'processes.json')

/** A lock on a file, held until `release` or the end of this process. */
interface FileLock {
  release(): void
}

/**
 * Takes the lock if it is free; otherwise returns undefined.
 *
 * The kernel releases the lock when the process ends, also after kill -9, so a lock is never stale. Node has no flock;
 * SQLite takes the same kind of lock on its file.
 *
 * @param path a file that is used only for the lock; created if it is missing
 */
function tryFileLock(path: string): FileLock | undefined {
  const database = new DatabaseSync(path)
  try {
    database.exec('pragma journal_mode = memory; begin exclusive')
    return { release: () => database.close() }
  } catch (error) {
    database.close()
    if (/locked|busy/i.test(String(error))) return undefined
    throw error
  }
}
