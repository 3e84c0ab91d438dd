import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { oneConnection } from './connect.ts'
import type { Database, Transaction } from './connect.ts'
import { locks } from './locks.ts'
import { transaction, withoutTimeLimit } from './transaction.ts'

/** Plain SQL files of one folder, applied in the order of their names. */
export interface MigrationFolder {
  /** Distinguishes equal file names of different folders. */
  name: string
  path: string
}

interface Migration {
  name: string
  text: string
  checksum: string
}

const watchEveryMs = 500

/**
 * Applies the migrations that the database does not have yet, each in its own transaction. Several replicas may call this
 * at once: one of them applies a migration, and the others wait until it is done.
 *
 * @param step reports progress: each migration at its start, and again while the server works on it
 * @returns the names applied
 * @throws Error if a migration was edited after it was applied
 */
export async function migrate(
  sql: Database,
  folders: MigrationFolder[],
  step: (name: string) => void = () => {},
): Promise<string[]> {
  const migrations = (await Promise.all(folders.map(read))).flat()
  const known = await listApplied(sql)
  const missing = migrations.filter((migration) => !isKnown(migration, known.get(migration.name)))
  const applied: string[] = []
  for (const migration of missing) {
    if (await apply(sql, migration, step)) applied.push(migration.name)
  }
  return applied
}

/** @returns checksums by name */
async function listApplied(sql: Database): Promise<Map<string, string>> {
  const [table] = await sql<{ exists: boolean }[]>`select to_regclass('migrations') is not null as exists`
  if (!table?.exists) return new Map()
  const rows = await sql<{ name: string; checksum: string }[]>`select name, checksum from migrations`
  return new Map(rows.map(({ name, checksum }) => [name, checksum]))
}

function isKnown({ name, checksum }: Migration, applied: string | undefined): boolean {
  if (applied !== undefined && applied !== checksum) {
    throw new Error(`migration ${name} was edited after it had been applied: write a new one instead`)
  }
  return applied !== undefined
}

/** @returns false if another replica has applied it meanwhile */
async function apply(sql: Database, migration: Migration, step: (name: string) => void): Promise<boolean> {
  const name = `migration ${migration.name}`
  step(name)
  await using watched = watch(sql, () => step(name))
  // Without `await` the watch would end before the transaction.
  return await transaction(sql, async (tx) => {
    // A replica waits for another one that migrates, however long that takes.
    await withoutTimeLimit(tx)
    await tx`set local lock_timeout = 0`
    await tx`set local transaction_timeout = 0`
    await watched.follow(tx)
    await tx`select pg_advisory_xact_lock(${locks.migration})`
    await tx`
      create table if not exists migrations (
        name text primary key,
        checksum text not null,
        applied_at timestamptz not null default now()
      )`
    const [before] = await tx<{ checksum: string }[]>`
      select checksum from migrations where name = ${migration.name}`
    if (isKnown(migration, before?.checksum)) return false
    await tx.unsafe(migration.text)
    await tx`insert into migrations (name, checksum) values (${migration.name}, ${migration.checksum})`
    return true
  })
}

/**
 * Distinguishes a migration that takes long from a broken connection: asks the server over another connection whether it
 * still works on the migration.
 */
function watch(
  sql: Database,
  atWork: () => void,
): { follow(tx: Transaction): Promise<void> } & AsyncDisposable {
  const other = oneConnection(sql)
  let pid: number | undefined
  let asking = false
  const ask = async () => {
    if (pid === undefined || asking) return
    asking = true
    try {
      const [session] = await other<
        { state: string }[]
      >`select state from pg_stat_activity where pid = ${pid}`
      if (session?.state === 'active') atWork()
    } catch {
      // No answer means no progress.
    } finally {
      asking = false
    }
  }
  const timer = setInterval(() => void ask(), watchEveryMs)
  return {
    async follow(tx) {
      const [backend] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
      pid = backend?.pid
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await other.end({ timeout: 1 })
    },
  }
}

async function read(folder: MigrationFolder): Promise<Migration[]> {
  const files = (await readdir(folder.path)).filter((file) => /^[0-9]{4}-[a-z0-9-]+\.sql$/.test(file)).sort()
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder.path, file), 'utf8')
      return {
        name: `${folder.name}/${file}`,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
      }
    }),
  )
}
