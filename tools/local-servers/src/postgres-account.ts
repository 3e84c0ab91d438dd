import { spawnSync } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** How PostgreSQL's programs are run: as whom, and behind which command. */
export interface PostgresAccount {
  /** Whom the data belongs to; absent: the user of this process. */
  owner?: User
  /** Options of `spawn` that make the program run so. */
  spawnAs: Partial<User>
  /** Goes before the program and its arguments. */
  prefix: string[]
}

interface User {
  uid: number
  gid: number
}

/**
 * PostgreSQL refuses to run as root. As root this finds somebody else: the owner of the data that is there, else
 * the user postgres, else nobody, so that no user is added to the machine.
 *
 * @param cluster the folder of the database cluster, existing or not; its parent exists
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

/** Below a folder such as /root, closed to everybody else, the account needs root's right to pass through. */
function pastClosedFolders(user: User, home: string, program: string): string[] {
  const prefix = [
    'setpriv',
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    '--clear-groups',
    // Else access(2), by which initdb looks for its fellows, would not count the right.
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
