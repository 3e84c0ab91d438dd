import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { closedSets } from '@licensing/proto/closed-sets'
import { createTestDatabase } from '@licensing/test-support/database'
import { listedValues } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { expect, test } from 'vitest'
import { catalogMigrations } from './migrations.ts'

test('the values in check constraints of the database are those of the closed sets', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    await migrate(sql, catalogMigrations)
    expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
      api_keys_scopes_check: closedSets.scope.toSorted(),
      entitlement_keys_kind_check: closedSets.entitlementKind.toSorted(),
      plans_status_check: closedSets.planStatus.toSorted(),
    })
  } finally {
    await sql.end({ timeout: 5 })
  }
})

test('every table and every column is in use', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    await migrate(sql, catalogMigrations)
    expect(await unusedInDatabase('catalog', (statement) => sql.unsafe(statement))).toEqual([])
  } finally {
    await sql.end({ timeout: 5 })
  }
})
