import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { licensingMigrations } from '../src/tables.ts'

/** A migrated database without a service. */
export async function givenDatabase(connections = 1) {
  const database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: connections })
  await migrate(sql, licensingMigrations)
  return {
    sql,
    [Symbol.asyncDispose]: async () => {
      await sql.end({ timeout: 5 })
      await database[Symbol.asyncDispose]()
    },
  }
}
