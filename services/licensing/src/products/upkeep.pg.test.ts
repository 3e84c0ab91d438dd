import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeEach, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import { forgetOldCallHomes } from './upkeep-queries.ts'
import { startUpkeep } from './upkeep.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())
beforeEach(async () => {
  await harness.sql`truncate call_homes, licence_activity`
  await harness.sql`update call_home_walk set after_licence_id = '', round_started_at = '-infinity'`
})

/** A licence that called home so many days ago, each time in this order. */
async function givenCalls(daysAgo: number[], licenceId = newId('lic')): Promise<string> {
  const { sql } = harness
  await sql`
    insert into licence_activity (licence_id, application_id, last_seen_at) values (${licenceId}, 'app', now())`
  await sql`
    insert into call_homes (licence_id, host, product_version, seen_at)
    select ${licenceId}, 'host', days::text, now() - days * interval '1 day'
    from unnest(${daysAgo}::int[]) with ordinality as call (days, place) order by place`
  return licenceId
}

async function daysLeft(licenceId: string): Promise<number[]> {
  const rows = await harness.sql<{ product_version: string }[]>`
    select product_version from call_homes where licence_id = ${licenceId} order by position`
  return rows.map((row) => Number(row.product_version))
}

async function walk(licences = 500): Promise<number> {
  for (let steps = 1; ; steps += 1) {
    const options = { keptDays: 90, roundHours: 24, licences }
    if (!(await transaction(harness.sql, (tx) => forgetOldCallHomes(tx, options)))) return steps
  }
}

const times = (count: number, days: number) => Array.from({ length: count }, () => days)

test('of a licence that calls often only the calls of the last 90 days are kept', async () => {
  const licence = await givenCalls([...times(300, 200), ...times(100, 91), ...times(70, 89), 1])
  await walk()
  expect(await daysLeft(licence)).toEqual([...times(70, 89), 1])
})

test('the latest 50 are kept however old they are', async () => {
  const silent = await givenCalls([...times(30, 400), ...times(40, 300)])
  const quiet = await givenCalls([...times(100, 200), ...times(20, 10)])
  const rare = await givenCalls(times(49, 1_000))
  await walk()
  expect(await daysLeft(silent)).toEqual([...times(10, 400), ...times(40, 300)])
  expect(await daysLeft(quiet)).toEqual([...times(30, 200), ...times(20, 10)])
  expect(await daysLeft(rare)).toEqual(times(49, 1_000))
})

test('the walk goes on where it stopped, reaches every licence once, and rests for a day', async () => {
  const licences = await Promise.all(Array.from({ length: 25 }, () => givenCalls(times(60, 100))))
  expect(await walk(10)).toBe(3)
  for (const licence of licences) expect(await daysLeft(licence)).toHaveLength(50)
  const late = await givenCalls(times(60, 100))
  expect(await walk(10)).toBe(1)
  expect(await daysLeft(late)).toHaveLength(60)
  await harness.sql`update call_home_walk set round_started_at = now() - interval '25 hours'`
  expect(await walk(10)).toBe(3)
  expect(await daysLeft(late)).toHaveLength(50)
})

test('while one replica is at it another leaves it alone', async () => {
  const licence = await givenCalls(times(60, 100))
  await harness.sql.begin(async (tx) => {
    await tx`select after_licence_id from call_home_walk for update`
    expect(await walk()).toBe(1)
    expect(await daysLeft(licence)).toHaveLength(60)
  })
  await walk()
  expect(await daysLeft(licence)).toHaveLength(50)
})

test('it is done in the background, by whichever replica', async () => {
  const licences = await Promise.all(Array.from({ length: 20 }, () => givenCalls(times(60, 100))))
  const options = { sql: harness.sql, tokenLifeSeconds: 60, log: harness.deps.log }
  const replicas = [startUpkeep(options), startUpkeep(options)]
  await eventually(async () => {
    for (const licence of licences) expect(await daysLeft(licence)).toHaveLength(50)
  })
  await Promise.all(replicas.map((replica) => replica.stop()))
})
