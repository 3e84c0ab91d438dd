import type { Sql } from '@licensing/database/connect'
import { oneConnection } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { isDatabaseOutage } from '@licensing/database/problems'
import { closedSets } from '@licensing/proto/closed-sets'
import type { HistoryType } from '@licensing/proto/closed-sets'
import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { expect, test } from 'vitest'
import { startHarness, forFile, newVendor } from '../../test/harness.ts'
import { callOf, givenActivation } from '../../test/products.ts'
import { archive, givenLicence, givenPlan, verbOn, importItems, atOnce } from '../../test/makers.ts'
import { bought, happen } from '../../test/purchases.ts'
import { addUp, counters } from './day-queries.ts'

await awaitTurn('day')
const harness = await forFile(startHarness)

const dayMs = 86_400_000
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
const today = () => dayOf(Date.now())

type Of = { accountId: string; applicationId: string }

const days = (of: Of, from = '2000-01-01', to = '2099-12-31') =>
  harness.licensing.getApplicationDays({ ...of, from, to })

/** The sums of all counters of an application over all days. */
async function counted(of: Of) {
  const sums: Record<string, bigint> = {}
  for (const day of (await days(of)).days) {
    for (const [name, count] of Object.entries(day)) {
      if (typeof count === 'bigint' && count !== 0n) sums[name] = (sums[name] ?? 0n) + count
    }
  }
  return sums
}

/** Ends the connections of the replicas that add up. */
const endRounds = () => harness.sql`
  select pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'adding up' and datname = current_database()`

async function addUpAll(): Promise<void> {
  while ((await addUp(harness.sql, 1_000)) > 0) {
    // Until nothing is left.
  }
}

test('each type of history entry has a counter, or needs none', () => {
  const uncounted: HistoryType[] = [
    'changed',
    'key_rotated',
    'migrated',
    'plan_changed',
    'renewed',
    'trial_started',
  ]
  const counted = new Set<string>([...counters, 'activation_freed'])
  expect(closedSets.historyType.filter((type) => !counted.has(type)).toSorted()).toEqual(uncounted)
})

test('each change of a licence or activation is counted once, on its day, before and after it is added up', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const { licensing, products } = own
  const licences = await atOnce(5, () => givenLicence(own, { planId: plan.id }))
  const [a, b, c] = licences
  const items = ['1', '2'].map((legacyKey) => ({ legacyKey, planId: plan.id }))
  for (let time = 0; time < 2; time += 1) await importItems(own, items)
  const [d, e] = [await bought(own, plan.id), await bought(own, plan.id)]
  await licensing.suspendLicence(verbOn(own, a!))
  await licensing.reactivateLicence(verbOn(own, a!))
  for (let time = 0; time < 2; time += 1) await licensing.revokeLicence(verbOn(own, b!))
  await licensing.retireLicence(verbOn(own, c!))
  await happen(own, d, 'a cancelled subscription')
  await happen(own, e, 'a partial refund')
  const grant = await givenActivation(products, a!)
  await givenActivation(products, a!, { fingerprint: 'kept' })
  await givenActivation(products, a!, { fingerprint: 'kept' })
  await products.recordCallHome(callOf(grant))
  await products.deactivate(grant)
  const expected = {
    issued: 5n,
    imported: 2n,
    created: 2n,
    suspended: 1n,
    reactivated: 1n,
    revoked: 1n,
    retired: 1n,
    expired: 1n,
    downgraded: 1n,
    // Nine were active, four are not any more.
    activeChange: 5n,
    activationsNew: 2n,
    activationsFreed: 1n,
    activationsSeen: 2n,
  }
  expect(await counted(own)).toEqual(expected)
  expect((await days(own)).days.map(({ day }) => day)).toEqual([today()])
  await addUpAll()
  expect(await counted(own)).toEqual(expected)
  expect(await counted({ ...own, accountId: newId('acct') })).toEqual({})
})

test('each licence that an archive suspends is counted, in few rows', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  await importItems(
    own,
    Array.from({ length: 500 }, (_, at) => ({ legacyKey: `k${at}`, planId: plan.id })),
  )
  await archive(own, plan)
  expect(await counted(own)).toEqual({ imported: 500n, suspended: 500n })
  const rows =
    await harness.sql`select 1 from application_day_changes where application_id = ${own.applicationId}`
  expect(rows.length).toBeLessThan(10)
  await addUpAll()
  expect(await counted(own)).toEqual({ imported: 500n, suspended: 500n })
})

test('a long transaction is counted once when it commits, even if other changes are added up before', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  const licence = await givenLicence(own, { planId: plan.id })
  const enter = (sql: Sql) => sql`
    insert into licence_history (licence_id, type, from_status, to_status, actor)
    values (${licence.id}, 'suspended', 'active', 'suspended', 'key_1')`
  await harness.sql.begin(async (tx) => {
    // The transaction gets its number now, and writes to the history after others have.
    await tx`select pg_current_xact_id()`
    await givenLicence(own, { planId: plan.id })
    await addUpAll()
    await tx.savepoint(enter)
    await addUpAll()
    expect(await counted(own)).toEqual({ issued: 2n, activeChange: 2n })
  })
  const after = { issued: 2n, activeChange: 1n, suspended: 1n }
  expect(await counted(own)).toEqual(after)
  for (let round = 0; round < 2; round += 1) await addUpAll()
  expect(await counted(own)).toEqual(after)
})

test('changes in the last millisecond of a UTC day and the first of the next count on their own days', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own)
  const enter = (at: string, type: string, from: string, to: string) => harness.sql`
    insert into licence_history (licence_id, at, type, from_status, to_status, actor)
    values (${licence.id}, ${at}::timestamptz, ${type}, ${from}, ${to}, 'key_1')`
  await harness.sql.begin(async (tx) => {
    await tx`set local timezone = 'Pacific/Auckland'`
    await tx`
      insert into licence_history (licence_id, at, type, from_status, to_status, actor)
      values (${licence.id}, '2026-03-14T23:59:59.999Z'::timestamptz, 'suspended', 'active', 'suspended', 'key_1')`
  })
  await enter('2026-03-15T00:00:00.000Z', 'reactivated', 'suspended', 'active')
  const of = await days(own, '2026-03-14', '2026-03-15')
  expect(of.days).toMatchObject([
    { day: '2026-03-14', suspended: 1n, activeChange: -1n },
    { day: '2026-03-15', reactivated: 1n, activeChange: 1n },
  ])
  const later = await days(own, today(), today())
  expect(later.activeBefore).toBe(0n)
  expect(later.days).toMatchObject([{ day: today(), issued: 1n, activeChange: 1n }])
})

test('an activation is seen once on each day on which it calls home', async () => {
  const own = newVendor(harness)
  const licence = await givenLicence(own)
  const grant = await givenActivation(harness.products, licence)
  const startedAt = Date.now()
  try {
    for (const aheadDays of [0, 1, 1, 3]) {
      harness.clock.aheadMs = aheadDays * dayMs
      await Promise.all([1, 2, 3].map(() => harness.products.recordCallHome(callOf(grant))))
    }
  } finally {
    harness.clock.aheadMs = 0
  }
  await harness.products.deactivate(grant)
  const seen = (await days(own)).days.map(({ day, activationsSeen }) => [day, activationsSeen])
  expect(seen).toEqual([0, 1, 3].map((ahead) => [dayOf(startedAt + ahead * dayMs), 1n]))
})

test('while replicas add up changes and lose their connections, a reader sees each acknowledged change once', async () => {
  const own = newVendor(harness)
  const plan = await givenPlan(own)
  let acknowledged = 0n
  let cutOff = 0
  const done = new AbortController()
  const issue = async () => {
    for (let count = 0; count < 60; count += 1) {
      await givenLicence(own, { planId: plan.id })
      acknowledged += 1n
      if (count % 4 === 0) cutOff += (await endRounds()).count
    }
  }
  const adding = [1, 2].map(async () => {
    const sql = oneConnection(harness.sql, { application_name: 'adding up' })
    while (!done.signal.aborted) {
      await addUp(sql, 7).catch((error: unknown) => {
        if (!isDatabaseOutage(error)) throw error
      })
    }
    await sql.end()
  })
  const watch = async () => {
    let max = 0n
    while (!done.signal.aborted) {
      const before = acknowledged
      const { issued = 0n, activeChange = 0n } = await counted(own)
      expect(issued).toBeGreaterThanOrEqual(before)
      expect(issued).toBeGreaterThanOrEqual(max)
      expect(activeChange).toBe(issued)
      max = issued
    }
  }
  const watching = watch()
  await atOnce(8, () => issue())
  done.abort()
  await Promise.all([...adding, watching])
  expect(cutOff).toBeGreaterThan(0)
  expect(await counted(own)).toEqual({ issued: 480n, activeChange: 480n })
  await addUpAll()
  expect(await counted(own)).toEqual({ issued: 480n, activeChange: 480n })
})

test.each(['', '2026-13-01', '2026-1-1', 'today'])('%j is not a valid day', async (day) => {
  await expect(days(harness, day)).rejects.toMatchObject({ code: 'validation_failed' })
  await expect(days(harness, '2026-01-01', day)).rejects.toMatchObject({ code: 'validation_failed' })
})

test.each(['application_days', 'application_day_changes'])(
  'every column of %s that is not part of its key is a counter',
  async (table) => {
    const rows = await harness.sql<{ name: string }[]>`
    select column_name as name from information_schema.columns
    where table_name = ${table} and column_name not in ('application_id', 'account_id', 'day')`
    expect(rows.map(({ name }) => name).toSorted()).toEqual(counters.toSorted())
  },
)
