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
  url: string
}

describe.skipIf(!withContainers)(
  'a process without a parent that fails in the container of PostgreSQL',
  () => {
    test('ends no session in the compose file', async () => {
      await using running = await startComposePostgres()
      expect(await keepsSession(running)).toBe(true)
    })

    test('ends no session in this suite', async () => {
      await using running = await startTestPostgres()
      expect(await keepsSession(running)).toBe(true)
    })

    test('ends all sessions if PostgreSQL is process 1', async () => {
      await using running = await startComposePostgres('services: { postgres: { init: false } }')
      expect(await keepsSession(running)).toBe(false)
    })
  },
)

/** Whether a session goes on after an orphan has failed. */
async function keepsSession({ container, url }: RunningPostgres): Promise<boolean> {
  const connect = () => postgres(url, { max: 1, onnotice: () => undefined })
  const session = connect()
  const later = connect()
  const pidOf = async (sql: postgres.Sql) => (await sql`select pg_backend_pid() as pid`)[0]?.['pid'] as number
  try {
    const before = await pidOf(session)
    await failAsOrphan(container)
    // The server accepts no session between the end of the orphan and its own recovery.
    await eventually(() => pidOf(later))
    return (await eventually(() => pidOf(session))) === before
  } finally {
    await Promise.all([session.end({ timeout: 5 }), later.end({ timeout: 5 })])
  }
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
  const running = started.move()
  return {
    container,
    url: `postgres://postgres:${password}@${await addressOf(container)}:5432/postgres`,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function startTestPostgres(): Promise<RunningPostgres> {
  const started = await new PostgresContainer().start()
  return {
    container: started.getId(),
    url: started.getConnectionUri(),
    [Symbol.asyncDispose]: async () => void (await started.stop()),
  }
}
