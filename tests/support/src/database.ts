import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { sharedPostgresUrl } from './shared-servers.ts'

/** A database for a test. It is dropped when it is disposed, even while clients are connected. */
export interface TestDatabase extends AsyncDisposable {
  readonly name: string
  /** Connection URL of the owner, with all rights. */
  readonly url: string
}

/**
 * Creates an empty database.
 *
 * @param serverUrl the server, with a user that may create databases; by default the server of the test run
 * @example
 * await using database = await createTestDatabase()
 * const sql = connect(database.url)
 */
export async function createTestDatabase(serverUrl: string = sharedPostgresUrl()): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await asOwner(serverUrl, (sql) => sql`create database ${sql(name)}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return {
    name,
    url: url.href,
    [Symbol.asyncDispose]: () =>
      asOwner(serverUrl, (sql) => sql`drop database if exists ${sql(name)} with (force)`),
  }
}

async function asOwner(serverUrl: string, work: (sql: postgres.Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(serverUrl, { max: 1, onnotice: () => undefined })
  try {
    await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
