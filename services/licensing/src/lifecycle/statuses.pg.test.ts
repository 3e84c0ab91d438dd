import { fullTest } from '@licensing/test-support/drawn'
import type { Sql } from '@licensing/database/connect'
import { expect, test } from 'vitest'
import { licencesToSuspend } from '../plans/plan-queries.ts'
import { licencesPast } from '../sweeps/sweep-queries.ts'
import { givenDatabase } from '../../test/database.ts'
import { findWrongStatuses } from '../../test/makers.ts'
import type { Selection } from './licence-queries.ts'

const insertLicences = (sql: Sql, from: number, to: number) => sql`
  insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id)
  select 'lic_' || n, 'key-' || n, 'acct', 'app', 'plan_' || n % 3, 'active', 'customer',
    case when n % 2 = 0 then now() + n * interval '1 day' end, 'snapshot'
  from generate_series(${from}::int, ${to}::int) n`

const archived = { id: 'plan_0', archivedBy: 'key_1' }

test('licence_statuses follows each insert and update of licences', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await insertLicences(sql, 1, 1_000)
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from licence_statuses`
  expect(row!.count).toBe(1_000)
  expect(await findWrongStatuses({ sql })).toEqual([])
  await sql`update licences set status = 'suspended' where plan_id = 'plan_1'`
  await sql`update licences set plan_id = 'plan_1', expires_on = null where id = 'lic_2'`
  await insertLicences(sql, 1_001, 1_010)
  expect(await findWrongStatuses({ sql })).toEqual([])
})

fullTest(
  'a change of one licence reads only its row, even if the session has changed many before',
  async () => {
    await using given = await givenDatabase()
    const { sql } = given
    await insertLicences(sql, 1, 5_000)
    await sql`vacuum analyze licence_statuses`
    for (const status of ['suspended', 'active', 'suspended', 'active', 'suspended', 'active']) {
      await sql`update licences set status = ${status}`
    }
    const read = await sql.begin(async (tx) => {
      const before = await rowsRead(tx)
      await tx`update licences set status = 'revoked' where id = 'lic_4999'`
      return (await rowsRead(tx)) - before
    })
    expect(read).toBe(1)
  },
)

fullTest(
  'an archive and a sweep lock only the licences of their step, whatever the planner’s estimates are',
  async () => {
    await using given = await givenDatabase(2)
    const { sql } = given
    await insertLicences(sql, -10_000, -1)
    for (const table of ['licences', 'licence_statuses'])
      await sql`delete from ${sql(table)} where expires_on is null`
    const lockedBy = (selection: (tx: Sql) => Selection) =>
      sql.begin(async (tx) => {
        // The planner then assumes that reading the whole table is faster than look-ups.
        await tx`set local random_page_cost = 1000`
        expect(await tx`${selection(tx)}`).toHaveLength(100)
        const free = await sql`select id from licences for update skip locked`
        return 5_000 - free.length
      })
    expect(await lockedBy((tx) => licencesPast(tx, undefined, 100))).toBe(100)
    expect(await lockedBy((tx) => licencesToSuspend(tx, archived, '', 100))).toBe(100)
  },
)

test('a sweep and an archive find their licences in the right index, with a generic plan', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await insertLicences(sql, 1, 5_000)
  await sql`vacuum analyze licence_statuses`
  const scans = (tx: Sql) => tx<{ name: string; scans: bigint }[]>`
    select indexrelid::regclass::text as name, pg_stat_get_xact_numscans(indexrelid) as scans
    from pg_index where indrelid = 'licence_statuses'::regclass order by 1`
  const indexesUsedBy = (selection: (tx: Sql) => Selection) =>
    sql.begin(async (tx) => {
      // The kind of plan that a statement has after many executions.
      await tx`set local plan_cache_mode = force_generic_plan`
      const before = await scans(tx)
      await tx`${selection(tx)}`
      const after = await scans(tx)
      return after.filter((index, at) => index.scans > before[at]!.scans).map(({ name }) => name)
    })
  expect(await indexesUsedBy((tx) => licencesPast(tx, undefined, 100))).toEqual(['licence_statuses_due'])
  expect(await indexesUsedBy((tx) => licencesToSuspend(tx, archived, 'lic_1', 100))).toEqual([
    'licence_statuses_by_plan',
  ])
})

/** Rows of the table that this session has read and PostgreSQL has not yet put into its statistics. */
async function rowsRead(sql: Sql): Promise<number> {
  const [row] = await sql<{ rows: number }[]>`
    select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables
    where relname = 'licence_statuses'`
  return row!.rows
}
