import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { chown, mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import postgres from 'postgres'
import { makeAccessibleFolder } from './folders.ts'
import { findPostgresPrograms, majorVersion, postgresAccount } from './postgres-cluster.ts'

/**
 * Writes all data of a running PostgreSQL, as they are when this returns, into a `.tar.gz` that only this user can read. It is
 * what `pg_basebackup --format tar --wal-method fetch` does, which the embedded PostgreSQL lacks.
 *
 * @param url with a user that may replicate
 */
export async function takeBaseBackup(url: string, file: string): Promise<void> {
  const connection = { replication: 'true' } as unknown as postgres.ConnectionParameters
  const options = { max: 1, fetch_types: false, connect_timeout: 60, onnotice: () => undefined, connection }
  const sql = postgres(url, options)
  try {
    const command = `BASE_BACKUP (label 'licensing', wal true, checkpoint 'fast', manifest 'no')`
    const messages = await sql.unsafe(command).readable()
    await pipeline(messages, archiveOf(), createGzip({ level: 1 }), createWriteStream(file, { mode: 0o600 }))
  } finally {
    await sql.end({ timeout: 5 })
  }
  const written = await open(file)
  await written.sync()
  await written.close()
}

/** https://www.postgresql.org/docs/current/protocol-replication.html: the parts of the archive are messages that begin with d. */
const archiveOf = () =>
  new Transform({
    transform: (message: Buffer, _encoding, done) =>
      message[0] === 'd'.charCodeAt(0) ? done(null, message.subarray(1)) : done(),
  })

/** The major version of the PostgreSQL that starts with a restored backup. */
export const postgresVersion = async () => majorVersion(await findPostgresPrograms())

/**
 * Creates the folder of a PostgreSQL from a base backup. `startPostgres` then starts it with the data of the backup.
 *
 * @param password of the superuser `postgres` in the backup
 * @throws Error if the folder contains a PostgreSQL
 */
export async function restoreBaseBackup(file: string, dataDir: string, password: string): Promise<void> {
  const cluster = join(dataDir, 'cluster')
  const fresh = `${cluster}.new`
  await makeAccessibleFolder(dataDir)
  if (await stat(cluster).catch(() => undefined)) throw new Error(`${cluster} exists`)
  await rm(fresh, { recursive: true, force: true })
  await mkdir(fresh, { mode: 0o700 })
  const { owner, prefix, spawnAs } = await postgresAccount(cluster, '/bin/sh')
  if (owner !== undefined) await chown(fresh, owner.uid, owner.gid)
  const [command, ...args] = [...prefix, 'tar', '-xzf', '-']
  const tar = spawn(command, args, { cwd: fresh, stdio: ['pipe', 'ignore', 'pipe'], ...spawnAs })
  const ended = once(tar, 'close') as Promise<[number | null]>
  let problem = ''
  tar.stderr.on('data', (text) => (problem += String(text)))
  await pipeline(createReadStream(file), tar.stdin).catch((error: unknown) => (problem ||= String(error)))
  const [code] = await ended
  if (code !== 0 || problem !== '') throw new Error(`tar could not read ${file}: ${problem.trim()}`)
  await writeFile(join(dataDir, 'superuser-password'), password, { mode: 0o600 })
  await rename(fresh, cluster)
}
