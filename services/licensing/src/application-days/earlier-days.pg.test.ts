import type { Sql } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { licensingMigrations } from '../migrations.ts'
import { givenDatabase, migrateToBefore } from '../../test/earlier-release.ts'
import { addUp, listDays } from './day-queries.ts'

const of = { accountId: 'acct', applicationId: 'app' }

/** 1,000 licences of an earlier release, issued on ten days; every third was suspended a day later. */
async function insertStories(sql: Sql) {
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, domains, snapshot_id)
    select 'lic_' || n, 'key-' || n, 'acct', 'app', 'plan', case n % 3 when 0 then 'suspended' else 'active' end,
      'customer ' || n, case n % 100 when 0 then array['d' || n] else '{}' end, 'snapshot'
    from generate_series(1, 1000) n`
  await sql`
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    select 'lic_' || n, timestamptz '2026-01-01 23:59:59.999Z' + n % 10 * interval '1 day', 'issued', null, 'active', 'k'
    from generate_series(1, 1000) n
    union all
    select 'lic_' || n, timestamptz '2026-01-03 00:00:00Z' + n % 10 * interval '1 day', 'suspended', 'active',
      'suspended', 'k'
    from generate_series(3, 1000, 3) n`
  await sql`
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version,
      created_at, last_seen_at)
    select 'act_' || n, 'acct', 'app', 'lic_' || n, 'f', 'h', '1', timestamptz '2026-01-02 12:00Z',
      timestamptz '2026-01-02 12:00Z' + n % 2 * interval '3 days'
    from generate_series(1, 10) n`
}

test('the days of an earlier release are counted from its history, and go on from there', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await migrateToBefore(sql, '0008')
  await insertStories(sql)
  await migrate(sql, licensingMigrations)
  const days = () => listDays(sql, { ...of, from: '2026-01-02', to: '2026-01-12' })
  const rows = await days()
  expect(rows[0]).toMatchObject({ day: null, issued: 100n, active_change: 100n })
  expect(rows[1]).toMatchObject({
    day: '2026-01-02',
    issued: 100n,
    activations_new: 10n,
    activations_seen: 10n,
  })
  expect(rows.find(({ day }) => day === '2026-01-05')).toMatchObject({
    activations_new: 0n,
    activations_seen: 5n,
  })
  const sum = (name: 'issued' | 'suspended' | 'active_change') =>
    rows.reduce((all, row) => all + row[name], 0n)
  expect([sum('issued'), sum('suspended'), sum('active_change')]).toEqual([1000n, 333n, 667n])
  const [active] = await sql<{ count: bigint }[]>`select count(*) from licences where status = 'active'`
  expect(sum('active_change')).toBe(active!.count)
  await sql`
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    values ('lic_1', '2026-01-12T10:00:00Z', 'revoked', 'active', 'revoked', 'k')`
  expect((await days()).at(-1)).toMatchObject({
    day: '2026-01-12',
    revoked: 1n,
    active_change: -34n - 1n,
  })
  const [domains] = await sql<{ count: bigint }[]>`select count(*) from licence_domains`
  expect(domains!.count).toBe(10n)
})

/** What an earlier release ran every two seconds. */
const addUpChanges = (sql: Sql) => sql`
  with gone as (
    delete from application_day_changes returning application_id, account_id, day, issued, suspended, active_change
  )
  insert into application_days as d (application_id, account_id, day, issued, imported, created, suspended, reactivated,
    revoked, expired, retired, downgraded, active_change, activations_new, activations_freed, activations_seen)
  select application_id, account_id, day, sum(issued), 0, 0, sum(suspended), 0, 0, 0, 0, 0, sum(active_change), 0, 0, 0
  from gone group by application_id, account_id, day
  on conflict (application_id, day) do update set issued = d.issued + excluded.issued,
    suspended = d.suspended + excluded.suspended, active_change = d.active_change + excluded.active_change`

test('what replicas of an earlier release change before, during and after the upgrade is counted once', async () => {
  await using given = await givenDatabase(5)
  const { sql } = given
  await migrateToBefore(sql, '0014')
  let issued = 0
  const issue = async (on: Sql) => {
    issued += 1
    const id = `lic_${issued}`
    await on`
      insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id,
        idempotency_key)
      values (${id}, ${id}, 'acct', 'app', 'plan', 'active', 'customer', 'snapshot', ${id})`
    await on`
      insert into licence_history (licence_id, type, to_status, actor) values (${id}, 'issued', 'active', 'key')`
    return id
  }
  const suspend = async (on: Sql, id: string) => {
    await on`update licences set status = 'suspended' where id = ${id}`
    await on`
      insert into licence_history (licence_id, type, from_status, to_status, actor)
      values (${id}, 'suspended', 'active', 'suspended', 'key')`
  }
  await suspend(sql, await issue(sql))
  const standing = await issue(sql)
  await addUpChanges(sql)
  await issue(sql)

  const [halfWay, numbered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const [goOn, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  // One has written when the migration begins, which waits for it; the other has only its number, and writes afterwards.
  const during = sql.begin(async (tx) => {
    const id = await issue(tx)
    halfWay.resolve()
    await goOn.promise
    await suspend(tx, id)
  })
  const after = sql.begin(async (tx) => {
    await tx`select pg_current_xact_id()`
    numbered.resolve()
    await finish.promise
    await suspend(tx, standing)
  })
  await Promise.all([halfWay.promise, numbered.promise])
  const migrated = migrate(sql, licensingMigrations)
  await eventually(async () => expect(await lockWaits(sql)).toBeGreaterThan(0))
  goOn.resolve()
  await Promise.all([during, migrated])

  const totals = async () => {
    const rows = await listDays(sql, { ...of, from: '2026-01-01', to: '2099-12-31' })
    const sum = (name: 'issued' | 'suspended' | 'active_change') =>
      Number(rows.reduce((all, row) => all + row[name], 0n))
    return [sum('issued'), sum('suspended'), sum('active_change')]
  }
  expect(await totals()).toEqual([4, 2, 2])
  for (const round of [addUp, addUpChanges, addUp]) {
    await round(sql, 1_000)
    expect(await totals()).toEqual([4, 2, 2])
  }
  finish.resolve()
  await after
  await issue(sql)
  expect(await totals()).toEqual([5, 3, 2])
  for (const round of [addUpChanges, addUp, addUpChanges, addUp]) {
    await round(sql, 1_000)
    expect(await totals()).toEqual([5, 3, 2])
  }
})

test('a database that is restored into another server, whose transactions have other numbers, goes on counting', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  await migrateToBefore(sql, '0008')
  await insertStories(sql)
  await migrate(sql, licensingMigrations)
  const suspend = (n: number) => sql`
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    values (${`lic_${n}`}, '2026-01-12T10:00:00Z', 'suspended', 'active', 'suspended', 'k')`
  await suspend(1)
  await addUp(sql, 1_000)
  await suspend(2)
  const days = () => listDays(sql, { ...of, from: '2026-01-02', to: '2026-01-12' })
  const before = await days()
  expect(before.at(-1)).toMatchObject({ suspended: 36n, active_change: -36n })
  // As a dump of a server that has had very many transactions brings them.
  await sql`alter table licence_history disable trigger append_only`
  await sql`update licence_history set xact = '8000000000' where licence_id = 'lic_1' and xact is not null`
  await sql`update licence_history set xact = '8000000009' where licence_id = 'lic_2' and xact is not null`
  await sql`alter table licence_history enable trigger append_only`
  await sql`update counted_history set seen_by = '8000000001:8000000001:'`
  expect(await days()).toEqual(before)
  await suspend(4)
  for (let round = 0; round < 2; round += 1) {
    await addUp(sql, 1_000)
    expect((await days()).at(-1)).toMatchObject({ suspended: 37n, active_change: -37n })
  }
  expect((await days()).slice(0, -1)).toEqual(before.slice(0, -1))
  await suspend(5)
  expect((await days()).at(-1)).toMatchObject({ suspended: 38n, active_change: -38n })
})
