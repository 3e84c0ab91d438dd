import { addressOf, docker } from '@licensing/test-support/docker'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { describe, expect, test } from 'vitest'
import { PostgresContainer, withContainers } from './engine.ts'

// A process whose parent has ended becomes a child of process 1. If that is PostgreSQL, and the process fails, PostgreSQL
// takes it for one of its own, ends all sessions and recovers. The engine leaves such a process behind when a health check
// takes too long and runs in a shell.

interface RunningPostgres extends AsyncDisposable {
  container: string
  /** Opens a connection, which is closed with the container. */
  connect(): postgres.Sql
}

describe.skipIf(!withContainers)('PostgreSQL in a container', () => {
  test('requires a password in the compose file, except from the user that runs it', async () => {
    await using running = await startComposePostgres()
    const methods = await running.connect()`select distinct auth_method from pg_hba_file_rules order by 1`
    expect(methods.map(({ auth_method: method }) => method)).toEqual(['peer', 'scram-sha-256'])
  })

  test('keeps its sessions in the compose file when a process without a parent fails', async () => {
    await using running = await startComposePostgres()
    expect(await keepsSession(running)).toBe(true)
  })

  test('keeps its sessions in this suite when a process without a parent fails', async () => {
    await using running = await startTestPostgres()
    expect(await keepsSession(running)).toBe(true)
  })

  test('ends all sessions as process 1 when a process without a parent fails', async () => {
    await using running = await startComposePostgres('services: { postgres: { init: false } }')
    expect(await keepsSession(running)).toBe(false)
  })
})

/** Whether a session goes on after an orphan has failed. */
async function keepsSession({ container, connect }: RunningPostgres): Promise<boolean> {
  const pidOf = async (sql: postgres.Sql) => (await sql`select pg_backend_pid() as pid`)[0]!['pid'] as number
  const session = connect()
  const before = await pidOf(session)
  await failAsOrphan(container)
  // The server accepts no session between the end of the orphan and its own recovery.
  const later = connect()
  await eventually(() => pidOf(later))
  return (await eventually(() => pidOf(session))) === before
}

/** Waits until the process has ended and process 1 has taken notice of it. */
async function failAsOrphan(container: string): Promise<void> {
  const orphan = 'until grep -q "^PPid:.1$" /proc/$$/status; do sleep 0.1; done; exit 2'
  const start = `sh -c '${orphan}' >/dev/null 2>&1 & echo $!`
  const pid = await docker(['exec', container, 'sh', '-c', start])
  expect(pid).toMatch(/^\d+$/)
  await eventually(() => docker(['exec', container, 'test', '!', '-e', `/proc/${pid}`]))
}

/** @param changes a compose file with changes of deploy/compose.yaml */
async function startComposePostgres(changes = ''): Promise<RunningPostgres> {
  await using started = new AsyncDisposableStack()
  const files = [fileURLToPath(new URL('../../../deploy/compose.yaml', import.meta.url))]
  if (changes !== '') {
    const folder = started.use(await makeTemporaryFolder())
    files.push(join(folder.path, 'changes.yaml'))
    await writeFile(files[1]!, changes)
  }
  const project = [
    '--env-file',
    '/dev/null',
    '--project-name',
    `licensing-t${randomBytes(6).toString('hex')}`,
  ]
  const compose = (...args: string[]) =>
    docker(['compose', ...project, ...files.flatMap((file) => ['--file', file]), ...args])
  started.defer(async () => void (await compose('down', '--volumes')))
  await compose('up', '--detach', '--wait', 'postgres')
  const container = await compose('ps', '--quiet', 'postgres')
  const password = await docker(['exec', container, 'with-secrets', 'printenv', 'POSTGRES_PASSWORD'])
  const url = `postgres://postgres:${password}@${await addressOf(container)}:5432/postgres`
  return runningPostgres(container, url, started.move())
}

async function startTestPostgres(): Promise<RunningPostgres> {
  const container = await new PostgresContainer().start()
  const started = new AsyncDisposableStack()
  started.defer(async () => void (await container.stop()))
  return runningPostgres(container.getId(), container.getConnectionUri(), started)
}

function runningPostgres(container: string, url: string, started: AsyncDisposableStack): RunningPostgres {
  const quiet = { max: 1, onnotice: () => undefined }
  return {
    container,
    connect: () => started.adopt(postgres(url, quiet), (sql) => sql.end({ timeout: 5 })),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}
