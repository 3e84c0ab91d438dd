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

/** Creates a user of the server that has only these rights. */
async function givenUser(rights: string): Promise<string> {
  const url = new URL(server.url())
  url.username = `user_${newPassword().replaceAll('-', '_').toLowerCase()}`
  url.password = 'secret'
  await query(server.url(), `create role "${url.username}" login password 'secret' ${rights}`)
  return url.href
}

test('each service owns its database and cannot connect to another', async () => {
  const urls = await ensureDatabases({ serverUrl: server.url(), suffix: 'own', passwords: givenPasswords() })
  expect(
    await query(urls.catalog, 'create table t (n int); select current_database() as name'),
  ).toContainEqual([{ name: 'licensing_catalog_own' }])
  const foreign = new URL(urls.catalog)
  foreign.pathname = new URL(urls.billing).pathname
  await expect(query(foreign.href, 'select 1')).rejects.toThrow('permission denied for database')
})

test('a second call keeps the data of the databases and sets the new passwords', async () => {
  const plan = { serverUrl: server.url(), suffix: 'again' }
  const before = await ensureDatabases({ ...plan, passwords: givenPasswords() })
  await query(before.licensing, 'create table kept (n int)')
  const after = await ensureDatabases({ ...plan, passwords: givenPasswords() })
  expect(await query(after.licensing, 'select * from kept')).toEqual([])
  await expect(query(before.licensing, 'select 1')).rejects.toThrow('password authentication failed')
})

test('dropDatabases removes databases and roles', async () => {
  const plan = { serverUrl: server.url(), suffix: 'gone' }
  await ensureDatabases({ ...plan, passwords: givenPasswords() })
  await dropDatabases(plan)
  const left = "select datname from pg_database where datname like '%_gone'"
  expect(await query(server.url(), left)).toEqual([])
  expect(await query(server.url(), "select 1 from pg_roles where rolname like '%_gone'")).toEqual([])
})

test('a user that may create databases and roles need not be a superuser', async () => {
  const serverUrl = await givenUser('createdb createrole')
  const urls = await ensureDatabases({ serverUrl, suffix: 'plain', passwords: givenPasswords() })
  expect(await query(urls.notifier, 'select 1 as one')).toEqual([{ one: 1 }])
  await ensureDatabases({ serverUrl, suffix: 'plain', passwords: givenPasswords() })
})

test('if the user lacks rights, the error names the required rights', async () => {
  const plan = { serverUrl: await givenUser(''), suffix: 'none', passwords: givenPasswords() }
  await expect(ensureDatabases(plan)).rejects.toThrow(
    /may not create databases and roles .* createdb createrole/,
  )
})

test('if the server cannot be reached, the error says so and names the server', async () => {
  const serverUrl = `postgres://nobody:secret@127.0.0.1:${await freePort()}/postgres`
  const plan = { serverUrl, suffix: 'none', passwords: givenPasswords() }
  await expect(ensureDatabases(plan)).rejects.toThrow(
    /of DATABASE_URL at 127.0.0.1:\d+ cannot be reached: .*ECONNREFUSED/,
  )
})

test('if the password is wrong, the error says that the login was rejected and names the user', async () => {
  const url = new URL(await givenUser('createdb createrole'))
  url.password = 'wrong'
  const plan = { serverUrl: url.href, suffix: 'none', passwords: givenPasswords() }
  await expect(ensureDatabases(plan)).rejects.toThrow(
    new RegExp(`of DATABASE_URL at 127.0.0.1:\\d+ rejected the login of ${url.username}: password`),
  )
})
