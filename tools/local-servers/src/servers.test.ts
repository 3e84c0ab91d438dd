import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { startNats } from './nats.ts'
import { startPostgres } from './postgres.ts'
import { identityOf, isRunning } from './process-table.ts'

async function givenFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}

async function query(url: string, statement: string): Promise<unknown[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  try {
    return await sql.unsafe(statement)
  } finally {
    await sql.end()
  }
}

/** Waits up to a minute until all processes have ended. Returns the pids that still run. */
async function stillRunning(pids: number[]): Promise<number[]> {
  let running = pids
  for (const until = Date.now() + 60_000; Date.now() < until && running.length > 0; await sleep(20)) {
    const identities = await Promise.all(running.map((pid) => identityOf(pid)))
    running = running.filter((_pid, index) => identities[index] !== undefined)
  }
  return running
}

/** Starts another process, which starts both servers in a folder, prints their pids and then waits. */
async function givenOtherLauncher(folder: string): Promise<{ launcher: number; servers: number[] }> {
  const program = `
    const { startPostgres } = await import(${JSON.stringify(new URL('postgres.ts', import.meta.url).href)})
    const { startNats } = await import(${JSON.stringify(new URL('nats.ts', import.meta.url).href)})
    const postgres = await startPostgres({ dataDir: process.argv[1] + '/postgres', durable: true })
    const nats = await startNats({ dataDir: process.argv[1] + '/nats', durable: false })
    console.log(JSON.stringify([postgres.pid, nats.pid]))
    setInterval(() => undefined, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  return { launcher: child.pid as number, servers: JSON.parse(line) as number[] }
}

test('a commit survives kill -9 of PostgreSQL, which restarts on the same port', async () => {
  await using server = await startPostgres({ dataDir: await givenFolder(), durable: true })
  const { port, pid } = server
  await query(server.url(), 'create table kept (n int); insert into kept values (1)')
  await server.kill()
  expect(await server.ended).toBe('SIGKILL')
  await server.start()
  expect(server.port).toBe(port)
  expect(server.pid).not.toBe(pid)
  expect(await query(server.url(), 'select n from kept')).toEqual([{ n: 1 }])
})

test('PostgreSQL restarts even if a process of the killed server ends late and others fill the log', async () => {
  const folder = await givenFolder()
  await using server = await startPostgres({ dataDir: folder, durable: false })
  const sql = postgres(server.url(), { max: 1, onnotice: () => undefined, onclose: () => undefined })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const [late] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  process.kill(late!.pid, 'SIGSTOP')
  const goOn = () => process.kill(late!.pid, 'SIGCONT')
  onTestFinished(async () => void ((await identityOf(late!.pid)) && goOn()))
  await server.kill()
  const log = join(folder, 'postgres.log')
  const starting = server.start()
  const ended = starting.then(
    () => 'started',
    (error: Error) => error.message,
  )
  const fill = async () => {
    await appendFile(log, 'FATAL:  terminating connection due to unexpected postmaster exit\n'.repeat(10))
    return Promise.race([ended, sleep(1)])
  }
  const isRefused = async () => (await readFile(log, 'utf8')).includes('pre-existing shared memory block')
  while (!(await isRefused())) expect(await fill()).toBeUndefined()
  for (let more = 0; more < 50; more += 1) expect(await fill()).toBeUndefined()
  goOn()
  await starting
  expect(await query(server.url(), 'select 1 as one')).toEqual([{ one: 1 }])
})

test('a durable server syncs to disk, and a server for tests does not; both need the password', async () => {
  await using durable = await startPostgres({ dataDir: await givenFolder(), durable: true })
  await using quick = await startPostgres({ dataDir: await givenFolder(), durable: false })
  expect(await query(durable.url(), 'show fsync')).toEqual([{ fsync: 'on' }])
  expect(await query(durable.url(), 'show synchronous_commit')).toEqual([{ synchronous_commit: 'on' }])
  expect(await query(quick.url(), 'show fsync')).toEqual([{ fsync: 'off' }])
  for (const server of [durable, quick]) {
    const url = new URL(server.url())
    url.password = 'guessed'
    await expect(query(url.href, 'select 1')).rejects.toThrow('password authentication failed')
  }
})

test('data of another major version is refused with advice, and not changed', async () => {
  const dataDir = await givenFolder()
  {
    await using server = await startPostgres({ dataDir, durable: true })
    await query(server.url(), 'create table kept (n int); insert into kept values (1)')
  }
  const versionFile = join(dataDir, 'cluster', 'PG_VERSION')
  const ours = await readFile(versionFile, 'utf8')
  await writeFile(versionFile, '18\n')
  await expect(startPostgres({ dataDir, durable: true })).rejects.toThrow(
    /cluster holds data of PostgreSQL 18, and this is PostgreSQL 17; nothing in it was changed.*DATA_DIR.*DATABASE_URL/,
  )
  expect(await readFile(versionFile, 'utf8')).toBe('18\n')
  await writeFile(versionFile, ours)
  await using again = await startPostgres({ dataDir, durable: true })
  expect(await query(again.url(), 'select n from kept')).toEqual([{ n: 1 }])
})

test('if another process uses the port, the error names the port', async () => {
  await using first = await startNats({ dataDir: await givenFolder(), durable: false })
  const second = startNats({ dataDir: await givenFolder(), durable: false, port: first.port })
  await expect(second).rejects.toThrow(`port ${first.port} of 127.0.0.1 is still in use`)
})

test('servers end with the process that started them, even if it is killed', async () => {
  const { launcher, servers } = await givenOtherLauncher(await givenFolder())
  process.kill(launcher, 'SIGKILL')
  expect(await stillRunning(servers)).toEqual([])
})

test('the next start stops servers that a killed process left running, and has their data', async () => {
  const folder = await givenFolder()
  const { launcher, servers } = await givenOtherLauncher(folder)
  const identities = (await Promise.all(servers.map((pid) => identityOf(pid)))).filter(
    (each) => each !== undefined,
  )
  expect(identities).toHaveLength(2)
  // While the launcher is paused, its pipes stay open: the servers keep running, as if their watchdogs had failed.
  process.kill(launcher, 'SIGSTOP')
  await using postgresServer = await startPostgres({ dataDir: join(folder, 'postgres'), durable: true })
  await using natsServer = await startNats({ dataDir: join(folder, 'nats'), durable: false })
  expect(await Promise.all(identities.map((each) => isRunning(each)))).toEqual([false, false])
  expect(await query(postgresServer.url(), 'select 1 as one')).toEqual([{ one: 1 }])
  expect(natsServer.pid).not.toBe(servers[1])
})
