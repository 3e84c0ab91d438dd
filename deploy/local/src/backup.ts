import { mkdir, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { postgresVersion, restoreBaseBackup, takeBaseBackup } from '@licensing/local-servers/base-backup'
import { startPostgres } from '@licensing/local-servers/postgres'
import { writeSecretFile } from '@licensing/local-servers/secrets'
import { CHECKOUT } from '@licensing/local-servers/services'
import { findRunningStack, takeDataFolder } from './data-folder.ts'
import { dataDirOf } from './start-settings.ts'

// `npm run backup -- FOLDER` and `npm run restore -- FOLDER`: all data of an `npm start`, of one moment, in a new folder; and
// back into a new DATA_DIR. The stack may run during a backup. NATS needs no backup.

/** The content of `backup.json`, which is written when the backup is complete. */
interface Backup {
  /** The release that took it. */
  version: string
  /** Major version of PostgreSQL. */
  postgres: string
  takenAt: string
  superuserPassword: string
  /** The content of `secrets.json`: encryption keys, the demo account's key, passwords of the databases. */
  secrets: string
}

const say = (line: string) => void process.stderr.write(`${line}\n`)
const commands: Record<string, (dataDir: string, folder: string) => Promise<void>> = { backup, restore }

try {
  const [name = '', folder] = process.argv.slice(2)
  if (folder === undefined) throw new Error(`name the folder of the backup: npm run ${name} -- FOLDER`)
  if (process.env['DATABASE_URL']) {
    throw new Error(
      'DATABASE_URL names your own PostgreSQL: see "Backup and restore" in docs/operations/runbook.md',
    )
  }
  await commands[name]!(dataDirOf(process.env), resolve(process.env['INIT_CWD'] ?? '', folder))
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}

async function backup(dataDir: string, folder: string): Promise<void> {
  const ofServer = (name: string) => readFile(join(dataDir, 'postgres', name), 'utf8')
  const postgres = await ofServer('cluster/PG_VERSION').catch(() => {
    throw new Error(`${dataDir} has no data of npm start: set DATA_DIR to its data folder`)
  })
  await using started = new AsyncDisposableStack()
  if ((await findRunningStack(dataDir)) === undefined) {
    started.use(await takeDataFolder(dataDir, say))
    started.use(await startPostgres({ dataDir: join(dataDir, 'postgres'), durable: true }))
  }
  const superuserPassword = await ofServer('superuser-password')
  // The fourth line is the port.
  const port = (await ofServer('cluster/postmaster.pid').catch(() => '')).split('\n')[3]
  if (!port)
    throw new Error(`the stack in ${dataDir} uses its own PostgreSQL (DATABASE_URL): back that up instead`)
  const secrets = await readFile(join(dataDir, 'secrets.json'), 'utf8')
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') throw new Error(`${folder} exists: name a new folder`)
    throw error
  })
  try {
    const url = `postgres://postgres:${superuserPassword}@127.0.0.1:${port}/postgres`
    await takeBaseBackup(url, join(folder, 'postgres.tar.gz'))
    const takenAt = new Date().toISOString()
    const written: Backup = {
      version: await version(),
      postgres: postgres.trim(),
      takenAt,
      superuserPassword,
      secrets,
    }
    await writeSecretFile(join(folder, 'backup.json'), JSON.stringify(written, undefined, 2))
  } catch (error) {
    await rm(folder, { recursive: true })
    throw error
  }
  say(
    `the backup is in ${folder}. It contains all keys, so keep it secret. Settings from the environment are not in it`,
  )
}

async function restore(dataDir: string, folder: string): Promise<void> {
  const text = await readFile(join(folder, 'backup.json'), 'utf8').catch(() => {
    throw new Error(`${folder} is not a complete backup: it has no backup.json`)
  })
  const found = JSON.parse(text) as Backup
  const ours = await version()
  if (found.version.localeCompare(ours, 'en', { numeric: true }) > 0) {
    throw new Error(
      `the backup is of release ${found.version}, and this is ${ours}: restore it with that release or a later one`,
    )
  }
  if (found.postgres !== (await postgresVersion())) {
    throw new Error(`the backup is of PostgreSQL ${found.postgres}: restore it with release ${found.version}`)
  }
  if ((await readdir(dataDir).catch(() => [])).length > 0) {
    throw new Error(`${dataDir} has data: rename it, or set DATA_DIR to another folder`)
  }
  const fresh = `${dataDir}.restoring`
  await rm(fresh, { recursive: true, force: true })
  await restoreBaseBackup(join(folder, 'postgres.tar.gz'), join(fresh, 'postgres'), found.superuserPassword)
  await writeSecretFile(join(fresh, 'secrets.json'), found.secrets)
  await rmdir(dataDir).catch(() => undefined)
  await rename(fresh, dataDir)
  say(`${dataDir} has the data of ${found.takenAt}: npm start with this DATA_DIR continues from there`)
}

async function version(): Promise<string> {
  return (JSON.parse(await readFile(join(CHECKOUT, 'package.json'), 'utf8')) as { version: string }).version
}
