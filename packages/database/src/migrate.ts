import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from './connect.ts'

/** Plain SQL files of one folder, applied in the order of their names. */
export interface MigrationFolder {
  /** Distinguishes equal file names of different folders. */
  name: string
  path: string
}

// Any constant: replicas that start at once wait here for one another.
const migrationLock = 7_162_001

/**
 * Applies the migrations that the database does not have yet, each in a transaction of its own. Safe when several
 * replicas start at once: one applies, the others wait and find it done.
 *
 * @returns the names applied
 * @throws Error when a migration that was applied has been edited since
 */
export async function migrate(sql: Database, folders: MigrationFolder[]): Promise<string[]> {
  const migrations = (await Promise.all(folders.map(read))).flat()
  const connection = await sql.reserve()
  try {
    // A replica waits here for as long as the one that migrates takes.
    await connection`set statement_timeout = 0`
    await connection`set lock_timeout = 0`
    await connection`select pg_advisory_lock(${migrationLock})`
    await connection`
      create table if not exists migrations (
        name text primary key,
        checksum text not null,
        applied_at timestamptz not null default now()
      )`
    const known = await connection<
      { name: string; checksum: string }[]
    >`select name, checksum from migrations`
    const checksums = new Map(known.map(({ name, checksum }) => [name, checksum]))
    const applied: string[] = []
    for (const { name, text, checksum } of migrations) {
      const before = checksums.get(name)
      if (before !== undefined && before !== checksum) {
        throw new Error(`migration ${name} was edited after it had been applied: write a new one instead`)
      }
      if (before !== undefined) continue
      const record = `insert into migrations (name, checksum) values ('${name}', '${checksum}')`
      await connection.unsafe(`begin; ${text}; ${record}; commit`).catch(async (error: unknown) => {
        await connection.unsafe('rollback').catch(() => {})
        throw error
      })
      applied.push(name)
    }
    return applied
  } finally {
    await connection`select pg_advisory_unlock(${migrationLock})`.catch(() => {})
    await connection`reset statement_timeout`.catch(() => {})
    await connection`reset lock_timeout`.catch(() => {})
    connection.release()
  }
}

async function read(folder: MigrationFolder): Promise<{ name: string; text: string; checksum: string }[]> {
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
