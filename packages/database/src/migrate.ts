import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from './connect.ts'
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

/**
 * Applies the migrations that the database does not have yet, each in its own transaction. Several replicas may call this
 * at once: one of them applies a migration, and the others wait until it is done.
 *
 * @param step reports each migration at its start
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
  step(`migration ${migration.name}`)
  return transaction(sql, async (tx) => {
    // A replica waits for another one that migrates, however long that takes.
    await withoutTimeLimit(tx)
    await tx`set local lock_timeout = 0`
    await tx`set local transaction_timeout = 0`
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
