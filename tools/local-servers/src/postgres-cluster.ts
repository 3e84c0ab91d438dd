import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { postgresAccount } from './postgres-account.ts'
import type { PostgresPrograms } from './postgres-programs.ts'
import { quickLogins } from './postgres-settings.ts'
import { commandLineOf, identityOf, stopProcess } from './process-table.ts'

const run = promisify(execFile)

/** No locale of the machine has a say: LANG may name one that is missing, or none, which would mean SQL_ASCII. */
export const POSTGRES_ENVIRONMENT = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Makes the database cluster when it is not there yet, whole or not at all: a try that was cut short leaves no
 * cluster.
 *
 * @returns the password of the superuser `postgres`, kept beside the cluster, readable by us alone
 */
export async function ensureCluster(
  dataDir: string,
  cluster: string,
  programs: PostgresPrograms,
  durable: boolean,
): Promise<string> {
  const passwordFile = join(dataDir, 'superuser-password')
  if (await exists(join(cluster, 'PG_VERSION'))) {
    await refuseOtherVersion(cluster, programs)
    return readFile(passwordFile, 'utf8')
  }
  const password = randomBytes(24).toString('base64url')
  const fresh = `${cluster}.new`
  const handedPassword = `${cluster}.password`
  await rm(fresh, { recursive: true, force: true })
  await rm(handedPassword, { force: true })
  await mkdir(fresh, { mode: 0o700 })
  await writeFile(handedPassword, password, { mode: 0o600 })
  await writeFile(passwordFile, password, { mode: 0o600 })
  const account = await postgresAccount(cluster, programs.initdb)
  if (account.owner !== undefined) {
    await chown(fresh, account.owner.uid, account.owner.gid)
    await chown(handedPassword, account.owner.uid, account.owner.gid)
  }
  const [command = '', ...args] = [
    ...account.prefix,
    programs.initdb,
    `--pgdata=${fresh}`,
    '--username=postgres',
    `--pwfile=${handedPassword}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    ...(durable ? [] : ['--no-sync', `--set=scram_iterations=${quickLogins.scram_iterations}`]),
  ]
  try {
    await run(command, args, { cwd: '/', env: POSTGRES_ENVIRONMENT, ...account.spawnAs })
  } catch (error) {
    await rm(fresh, { recursive: true, force: true })
    const { stderr = '' } = error as { stderr?: string }
    throw new Error(`initdb failed in ${dataDir}: ${stderr.trim() || String(error)}`, { cause: error })
  } finally {
    await rm(handedPassword, { force: true })
  }
  await rename(fresh, cluster)
  return password
}

/** Stops the server that a killed process left behind on this cluster, and forgets a lock that nobody holds. */
export async function clearLeftovers(cluster: string): Promise<void> {
  const lockFile = join(cluster, 'postmaster.pid')
  const lock = await readFile(lockFile, 'utf8').catch(() => '')
  const pid = Number(lock.split('\n')[0])
  if (!Number.isInteger(pid) || pid <= 0) return
  const identity = await identityOf(pid)
  if (identity === undefined) return
  // The number may be another process's by now; PostgreSQL would take that for its own and refuse to start.
  if ((await commandLineOf(pid)).includes(cluster)) await stopProcess(identity, 'SIGINT', 15_000)
  else await rm(lockFile, { force: true })
}

async function refuseOtherVersion(cluster: string, programs: PostgresPrograms): Promise<void> {
  const found = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim()
  const { stdout } = await run(programs.postgres, ['--version'], { env: POSTGRES_ENVIRONMENT })
  const ours = /\) (\d+)/.exec(stdout)?.[1]
  if (ours === found) return
  throw new Error(
    `${cluster} holds data of PostgreSQL ${found}, and this is PostgreSQL ${ours}; nothing in it was changed. ` +
      'For an empty stack set DATA_DIR to another folder. To go on with this data start a PostgreSQL ' +
      `${found} of your own on it (user postgres, password in ${join(dirname(cluster), 'superuser-password')}) ` +
      'and set DATABASE_URL',
  )
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
