import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'

test('every session of a pool has its limits and settings', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, {
    name: 'settings',
    statementTimeoutMs: 1_234,
    lockTimeoutMs: 567,
    settings: { plan_cache_mode: 'force_custom_plan' },
  })
  const [row] = await sql`
    select current_setting('application_name') as name, current_setting('statement_timeout') as statement,
      current_setting('lock_timeout') as lock, current_setting('plan_cache_mode') as plans`
  expect(row).toEqual({ name: 'settings', statement: '1234ms', lock: '567ms', plans: 'force_custom_plan' })
  await sql.end()
})
