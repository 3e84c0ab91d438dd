import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dropDatabases, ensureDatabases } from './databases.ts'
import { freePort } from './ports.ts'
import { startPostgres, type PostgresServer } from './postgres.ts'
import { newPassword } from './secrets.ts'

let server: PostgresServer
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  server = await startPostgres({ dataDir: folder, durable: false })
})

afterAll(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

function givenPasswords() {
  return { catalog: newPassword(), licensing: newPassword(), billing: newPassword(), notifier: newPassword() }
}

async function query(url: string, statement: string): Promise<unknown[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, connect_timeout: 5 })
  try {
    return await sql.unsafe(statement)
  } finally {
    await sql.end()
  }
}

/** A user of the server with these rights alone. */
async function givenUser(rights: string): Promise<string> {
  const url = new URL(server.url())
  url.username = `user_${newPassword().replaceAll('-', '_').toLowerCase()}`
  url.password = 'secret'
  await query(server.url(), `create role "${url.username}" login password 'secret' ${rights}`)
  return url.href
}

test('each service owns its database and reaches no other', async () => {
  const urls = await ensureDatabases({ serverUrl: server.url(), suffix: 'own', passwords: givenPasswords() })
  expect(
    await query(urls.catalog, 'create table t (n int); select current_database() as name'),
  ).toContainEqual([{ name: 'licensing_catalog_own' }])
  const foreign = new URL(urls.catalog)
  foreign.pathname = new URL(urls.billing).pathname
  await expect(query(foreign.href, 'select 1')).rejects.toThrow('permission denied for database')
})

test('made again, the databases keep their data and take the passwords given', async () => {
  const plan = { serverUrl: server.url(), suffix: 'again' }
  const before = await ensureDatabases({ ...plan, passwords: givenPasswords() })
  await query(before.licensing, 'create table kept (n int)')
  const after = await ensureDatabases({ ...plan, passwords: givenPasswords() })
  expect(await query(after.licensing, 'select * from kept')).toEqual([])
  await expect(query(before.licensing, 'select 1')).rejects.toThrow('password authentication failed')
})

test('dropped databases and roles are gone', async () => {
  const plan = { serverUrl: server.url(), suffix: 'gone' }
  await ensureDatabases({ ...plan, passwords: givenPasswords() })
  await dropDatabases(plan)
  const left = "select datname from pg_database where datname like '%_gone'"
  expect(await query(server.url(), left)).toEqual([])
  expect(await query(server.url(), "select 1 from pg_roles where rolname like '%_gone'")).toEqual([])
})

test('a user that may create databases and roles is enough, a superuser is not needed', async () => {
  const serverUrl = await givenUser('createdb createrole')
  const urls = await ensureDatabases({ serverUrl, suffix: 'plain', passwords: givenPasswords() })
  expect(await query(urls.notifier, 'select 1 as one')).toEqual([{ one: 1 }])
  await ensureDatabases({ serverUrl, suffix: 'plain', passwords: givenPasswords() })
})

test('a user without the rights gets an error that names those needed', async () => {
  const plan = { serverUrl: await givenUser(''), suffix: 'none', passwords: givenPasswords() }
  await expect(ensureDatabases(plan)).rejects.toThrow(
    /may not create databases and roles .* createdb createrole/,
  )
})

test('a server that does not answer is named', async () => {
  const serverUrl = `postgres://nobody:secret@127.0.0.1:${await freePort()}/postgres`
  const plan = { serverUrl, suffix: 'none', passwords: givenPasswords() }
  await expect(ensureDatabases(plan)).rejects.toThrow(/of DATABASE_URL at 127.0.0.1:\d+ rejected the login/)
})
