import postgres from 'postgres'
import { expect, test } from 'vitest'
import { createTestDatabase } from './database.ts'

test('each test database is empty, uses UTF-8, and is dropped afterwards', async () => {
  let url = ''
  {
    await using database = await createTestDatabase()
    await using other = await createTestDatabase()
    expect(other.name).not.toBe(database.name)
    url = database.url
    const sql = postgres(url, { max: 1 })
    expect(await sql`select * from information_schema.tables where table_schema = 'public'`).toHaveLength(0)
    expect(await sql`show server_encoding`).toMatchObject([{ server_encoding: 'UTF8' }])
    await sql.end()
  }
  const sql = postgres(url, { max: 1 })
  await expect(sql`select 1`).rejects.toThrow('does not exist')
  await sql.end()
})
