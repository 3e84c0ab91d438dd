import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database, Sql, Transaction } from './connect.ts'
import { setTimeout as pause } from 'node:timers/promises'
import { locks } from './locks.ts'
import { isLockTimeout } from './problems.ts'
import { transaction, withoutTimeLimit } from './transaction.ts'

/** First line of a migration that runs without a transaction, such as `create index concurrently`. */
const withoutTransaction = '-- without a transaction'
// While a migration waits for a lock, all later statements on that table wait behind it.
const lockTimeout = '1s'
const retryMs = 250
const timeouts = ['statement_timeout', 'lock_timeout', 'transaction_timeout']

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
 * Applies the migrations that the database does not have yet, each in its own transaction unless its first line is
 * `-- without a transaction`. Several replicas may call this at once: one of them applies a migration, and the others wait
 * until it is done. A migration that does not get a lock within a second is rolled back and tried again, so that it never
 * delays the requests of running replicas for longer.
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
  const once = migration.text.startsWith(withoutTransaction) ? applyAlone : applyInTransaction
  for (;;) {
    const applied = await once(sql, migration)
    if (applied !== undefined) return applied
    await pause(retryMs)
  }
}

/** @returns undefined if it must be tried again: another replica migrates, or a lock is not free */
async function applyInTransaction(sql: Database, migration: Migration): Promise<boolean | undefined> {
  return transaction(sql, async (tx) => {
    await withoutTimeLimit(tx)
    await tx`select set_config('lock_timeout', ${lockTimeout}, true), set_config('transaction_timeout', '0', true)`
    // A statement that waited for this lock would hold a snapshot, for which `create index concurrently` waits.
    const [lock] = await tx<{ locked: boolean }[]>`
      select pg_try_advisory_xact_lock(${locks.migration}) as locked`
    if (!lock!.locked) return undefined
    if (await isApplied(tx, migration)) return false
    await tx.unsafe(migration.text)
    await recordApplied(tx, migration)
    return true
  }).catch(againAfterLockTimeout)
}

/** Its statements run one by one. If the process ends between them, all of them run again. */
async function applyAlone(sql: Database, migration: Migration): Promise<boolean | undefined> {
  const own = (await sql.reserve()) as Transaction
  try {
    own.waitForever()
    // `create index concurrently` waits for older transactions, and delays no other statement meanwhile.
    for (const timeout of timeouts) await own.unsafe(`set ${timeout} = 0`)
    const [lock] = await own<{ locked: boolean }[]>`select pg_try_advisory_lock(${locks.migration}) as locked`
    if (!lock!.locked) return undefined
    try {
      if (await isApplied(own, migration)) return false
      const statements = migration.text.split(/;\s*$/m).map((statement) => statement.trim())
      for (const statement of statements) if (statement !== '') await own.unsafe(statement)
      await recordApplied(own, migration)
      return true
    } finally {
      await own`select pg_advisory_unlock(${locks.migration})`.catch(() => {})
    }
  } finally {
    await own.unsafe(timeouts.map((timeout) => `reset ${timeout}`).join('; ')).catch(() => {})
    own.release()
  }
}

function againAfterLockTimeout(error: unknown): undefined {
  if (!isLockTimeout(error)) throw error
}

async function isApplied(sql: Sql, migration: Migration): Promise<boolean> {
  await sql`
    create table if not exists migrations (
      name text primary key,
      checksum text not null,
      applied_at timestamptz not null default now()
    )`
  const [before] = await sql<{ checksum: string }[]>`
    select checksum from migrations where name = ${migration.name}`
  return isKnown(migration, before?.checksum)
}

const recordApplied = (sql: Sql, { name, checksum }: Migration) =>
  sql`insert into migrations (name, checksum) values (${name}, ${checksum})`

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
