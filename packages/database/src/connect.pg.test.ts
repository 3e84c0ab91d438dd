import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { connect } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'

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

test('a session that was ended since nothing happened in its transaction counts as unavailable', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, {
    name: 'idle',
    settings: { idle_in_transaction_session_timeout: '50ms' },
  })
  await using others = {
    sql: connect(database.url, { name: 'other' }),
    [Symbol.asyncDispose]: () => others.sql.end(),
  }
  const ended = async () => {
    const rows = await others.sql`select 1 from pg_stat_activity where application_name = 'idle'`
    expect(rows).toHaveLength(0)
  }
  const work = sql.begin(async (tx) => {
    await tx`select 1`
    await eventually(ended)
    await tx`select 2`
  })
  const error: unknown = await work.catch((error: unknown) => error)
  expect(isDatabaseUnavailable(error)).toBe(true)
  expect(await sql`select 3 as three`).toEqual([{ three: 3 }])
  await sql.end()
})
