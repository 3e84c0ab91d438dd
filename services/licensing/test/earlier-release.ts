import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { licensingMigrations } from '../src/migrations.ts'

/** A database without a table, and nothing that runs on it. */
export async function givenDatabase(connections = 1) {
  const database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: connections })
  return {
    sql,
    [Symbol.asyncDispose]: async () => {
      await sql.end({ timeout: 5 })
      await database[Symbol.asyncDispose]()
    },
  }
}

/** The migrations before one, as a release had them that knew no later ones. */
export async function migrateToBefore(sql: Database, number: string): Promise<void> {
  await using folder = await makeTemporaryFolder()
  const own = licensingMigrations.at(-1)!
  for (const file of await readdir(own.path)) {
    if (file < number) await copyFile(join(own.path, file), join(folder.path, file))
  }
  await migrate(sql, [...licensingMigrations.slice(0, -1), { name: own.name, path: folder.path }])
}
