import { execFileSync } from 'node:child_process'
import { chown, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { connect } from '@licensing/database/connect'
import { freePort } from '@licensing/local-servers/ports'
import { findPostgresPrograms, postgresAccount } from '@licensing/local-servers/postgres-cluster'
import { lastLines, startServerProcess, type ServerProcess } from '@licensing/local-servers/server-process'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { folderOf, postgresPrograms } from '@licensing/test-support/installed-programs'
import { eventually } from '@licensing/test-support/poll'
import { blocksOfRunbook } from '@licensing/test-support/runbook'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect } from 'vitest'

/** Two PostgreSQL servers with Patroni and the runbook's settings, and one etcd. */
export interface PatroniCluster extends AsyncDisposable {
  /** The superuser's URL with both servers. */
  readonly url: string
  /** The member that leads; throws if there is none. */
  leader(): Promise<Member>
  /** The other member. */
  standbyOf(leader: Member): Member
  /** Waits until one member leads and the other one is its synchronous standby. */
  untilComplete(): Promise<void>
}

export interface Member {
  /** Whether Patroni considers it the leader. */
  isLeader(): Promise<boolean>
  /** Resolves if the server accepts writes; throws if not. */
  write(): Promise<void>
  /** Ends Patroni and PostgreSQL as a power cut does. */
  kill(): void
  start(): Promise<void>
  /** Stops all processes, which keep their connections, until `thaw`. */
  freeze(): void
  /** Stops Patroni until `thaw`. PostgreSQL goes on, so that there are two leaders once the other member is promoted. */
  freezePatroni(): void
  thaw(): void
  /** Loses everything between this member and services, the other member and etcd, until `reconnect`. */
  cutNetwork(): void
  reconnect(): void
}

interface Place {
  folder: string
  /** `host:port` of etcd. */
  etcd: string
  /** Starts a program as the user that runs PostgreSQL. */
  run: (name: string, command: string, args: string[]) => Promise<ServerProcess>
  /** Creates a folder of that user. */
  makeFolder: (name: string) => Promise<string>
}

const patroni = folderOf('patroni', /patroni (?!3\.0\.[0-3]$|[12]\.)/m)
const etcd = folderOf('etcd', /etcd/)

/** The programs that this machine lacks; undefined if it can run a cluster. */
export const missingPrograms =
  [!patroni && 'patroni 3.0.4', !etcd && 'etcd', !postgresPrograms && 'pg_rewind of PostgreSQL 17']
    .filter(Boolean)
    .join(', ') || undefined

const timeoutMs = 180_000

export async function startPatroniCluster(): Promise<PatroniCluster> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder()).path
  const { postgres, initdb } = await findPostgresPrograms()
  const { owner, prefix, spawnAs } = await postgresAccount(join(folder, 'data'), postgres)
  const makeFolder = async (name: string) => {
    const path = join(folder, name)
    await mkdir(path, { mode: 0o700 })
    if (owner) await chown(path, owner.uid, owner.gid)
    return path
  }
  // The server of all other tests, and the programs that it lacks.
  const programs = await makeFolder('programs')
  for (const program of [postgres, initdb, join(postgres, '../pg_ctl')]) {
    await symlink(program, join(programs, basename(program)))
  }
  for (const name of ['pg_rewind', 'pg_basebackup', 'pg_controldata', 'pg_isready']) {
    await symlink(join(postgresPrograms!, name), join(programs, name))
  }
  const run: Place['run'] = (name, program, given) => {
    const [command = '', ...args] = [...prefix, program, ...given]
    return startServerProcess({
      command,
      args,
      env: { PATH: `${programs}:${process.env['PATH'] ?? ''}`, LC_ALL: 'C.UTF-8', TZ: 'UTC' },
      logFile: join(folder, `${name}.log`),
      stopSignal: 'SIGTERM',
      user: spawnAs,
    })
  }
  const [client, peer] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const settings = {
    'listen-client-urls': `http://${client}`,
    'advertise-client-urls': `http://${client}`,
    'listen-peer-urls': `http://${peer}`,
    'initial-advertise-peer-urls': `http://${peer}`,
    'initial-cluster': `default=http://${peer}`,
    'data-dir': await makeFolder('etcd'),
  }
  const args = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const store = await run('etcd', join(etcd!, 'etcd'), args)
  started.defer(() => store.stop())

  const place = { folder, etcd: client, run, makeFolder }
  const first = await startMember('db-1', place, started)
  await eventually(
    async () => {
      if (await first.isLeader()) return
      const log = await readFile(join(folder, 'db-1.log'), 'utf8')
      throw new Error(`the first server does not lead:\n${lastLines(log)}`)
    },
    { timeoutMs },
  )
  const members = [first, await startMember('db-2', place, started)]
  const cluster: Omit<PatroniCluster, typeof Symbol.asyncDispose> = {
    url: `postgres://postgres:${password}@${members.map(({ address }) => address).join(',')}/postgres`,
    leader: async () => {
      for (const member of members) if (await member.isLeader()) return member
      throw new Error('no member leads')
    },
    standbyOf: (leader) => members.find((member) => member !== leader)!,
    untilComplete: () =>
      eventually(
        async () => {
          for (const member of members) expect(await member.roles()).toEqual(['leader', 'sync_standby'])
        },
        { timeoutMs },
      ),
  }
  await cluster.untilComplete()
  const running = started.move()
  return { ...cluster, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

const password = 'of-the-test'

async function startMember(
  name: string,
  { folder, etcd, run, makeFolder }: Place,
  started: AsyncDisposableStack,
): Promise<Member & { address: string; roles: () => Promise<string[]> }> {
  const [port, rest] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  // Everybody else reaches the server and its Patroni through these proxies, and it reaches etcd through the third.
  const [toServer, toPatroni, toEtcd] = [
    started.use(await startFaultyProxy(port)),
    started.use(await startFaultyProxy(rest)),
    started.use(await startFaultyProxy(etcd)),
  ]
  const own = await makeFolder(name)
  const data = join(own, 'data')
  const local = {
    scope: 'licensing',
    name,
    restapi: { listen: rest, connect_address: toPatroni.address },
    etcd3: { host: toEtcd.address, use_proxies: true },
    postgresql: {
      listen: port,
      connect_address: toServer.address,
      data_dir: data,
      bin_dir: join(folder, 'programs'),
      pgpass: join(own, 'pgpass'),
      parameters: { unix_socket_directories: own, fsync: 'off' },
      pg_hba: ['host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256'],
      authentication: {
        superuser: { username: 'postgres', password },
        replication: { username: 'replicator', password },
      },
    },
  }
  const lines = Object.entries(local).map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
  const configuration = join(folder, `${name}.yml`)
  const [bootstrap] = await blocksOfRunbook('Failover of PostgreSQL', 'yaml')
  await writeFile(configuration, [...lines, bootstrap].join('\n'))
  const launch = () => run(name, join(patroni!, 'patroni'), [configuration])
  let launched = await launch()
  const signal = (which: NodeJS.Signals, folder?: string) => {
    // The second time reaches the processes that were started meanwhile.
    for (const pid of [...processesOf(launched.pid, folder), ...processesOf(launched.pid, folder)]) {
      try {
        process.kill(pid, which)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    }
  }
  started.defer(async () => {
    signal('SIGKILL', data)
    await launched.ended
  })
  const ask = (path: string) => fetch(`http://${rest}${path}`, { signal: AbortSignal.timeout(500) })
  return {
    address: toServer.address,
    write: async () => {
      await using direct = new AsyncDisposableStack()
      const sql = connect(`postgres://postgres:${password}@${port}/postgres`, { name: 'patroni', max: 1 })
      direct.defer(() => sql.end({ timeout: 1 }))
      await sql`create temporary table written ()`
    },
    isLeader: () =>
      ask('/leader').then(
        ({ ok }) => ok,
        () => false,
      ),
    roles: async () => {
      const { members } = (await (await ask('/cluster')).json()) as { members: { role: string }[] }
      return members.map(({ role }) => role).toSorted()
    },
    kill: () => signal('SIGKILL', data),
    start: async () => {
      await launched.ended
      launched = await launch()
    },
    freeze: () => signal('SIGSTOP', data),
    freezePatroni: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT', data),
    cutNetwork: () => [toServer, toPatroni, toEtcd].forEach((proxy) => proxy.swallow()),
    reconnect: () => [toServer, toPatroni, toEtcd].forEach((proxy) => proxy.flow()),
  }
}

/** Patroni and, if `data` is given, the server on it, which is no child of Patroni; with all children. Parents come first. */
function processesOf(patroniPid: number, data?: string): number[] {
  const table = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' })
  const processes = table.split('\n').map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [])
  const found = new Set([patroniPid])
  for (const [, pid, , command] of processes)
    if (data && command?.includes(`-D ${data} `)) found.add(Number(pid))
  for (let before = -1; before !== found.size;) {
    before = found.size
    for (const [, pid, parent] of processes) if (found.has(Number(parent))) found.add(Number(pid))
  }
  return [...found]
}
