import { createChange } from '@licensing/changes/change'
import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  countedOn,
  events,
  eventTypes,
  givenLicence,
  givenPlan,
  history,
  statusOf,
} from '../../test/makers.ts'
import { bought, inDays } from '../../test/purchases.ts'
import { sweepExpiries } from './sweep-expiries.ts'

const harness = await forFile(startHarness)

const sweep = () => sweepExpiries(harness.deps)

test('a licence past its expiry is expired once, with its event and its history', async () => {
  const plan = await givenPlan(harness)
  const [past, ahead, perpetual] = [
    await bought(harness, plan.id, inDays(-1)),
    await bought(harness, plan.id, inDays(1)),
    await givenLicence(harness, { planId: plan.id }),
  ]
  expect(await sweep()).toBe(1)
  expect(await sweep()).toBe(0)
  expect(await statusOf(harness, past)).toBe('expired')
  expect(await statusOf(harness, ahead)).toBe('active')
  expect(await statusOf(harness, perpetual)).toBe('active')
  expect((await events(harness, past)).slice(1)).toEqual([
    { type: 'licence.expired', object: { licence_id: past.id, status: 'expired' }, previous: null },
  ])
  expect((await history(harness, past)).at(-1)).toEqual({
    type: 'expired',
    from: 'active',
    to: 'expired',
    actor: 'sweep',
    cause: undefined,
  })
  expect(await activeOn(harness, plan)).toBe(2n)
})

test('a licence that another transaction has locked is left for the next sweep, which does not wait', async () => {
  const plan = await givenPlan(harness)
  const [held, free] = [
    await bought(harness, plan.id, inDays(-1)),
    await bought(harness, plan.id, inDays(-1)),
  ]
  await harness.sql.begin(async (tx) => {
    await tx`select id from licences where id = ${held.id} for update`
    expect(await sweep()).toBe(1)
    expect(await statusOf(harness, free)).toBe('expired')
  })
  expect(await statusOf(harness, held)).toBe('active')
  expect(await sweep()).toBe(1)
})

test('after a downtime it catches up, and replicas that sweep at once expire each licence once', async () => {
  const plan = await givenPlan(harness)
  const count = 3_500
  await insertDue(plan.id, count)
  const replicas = [1, 2, 3].map(() => createChange(harness.sql))
  const before = (await eventTypes(harness)).length
  const swept = await Promise.all(replicas.map((change) => sweepExpiries({ sql: harness.sql, change })))
  const last = await sweep()
  expect(swept.reduce((sum, one) => sum + one, last)).toBe(count)
  const expired = (await events(harness)).slice(before)
  expect(new Set(expired.map((event) => event.object['licence_id'])).size).toBe(count)
  expect(expired).toHaveLength(count)
  expect(await activeOn(harness, plan)).toBe(await countedOn(harness, plan))
})

/** Licences that became due while no sweep ran, with the counters that an issue would have written. */
async function insertDue(planId: string, count: number): Promise<void> {
  const { sql, accountId, applicationId } = harness
  const ids = Array.from({ length: count }, () => newId('lic'))
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id)
    select id, id, ${accountId}, ${applicationId}, ${planId}, 'active', 'customer', now() - interval '1 day',
      (select snapshot_id from plans where id = ${planId})
    from unnest(${ids}::text[]) as id`
  await sql`insert into plan_counts (plan_id, shard, active) values (${planId}, 99, ${count})`
}
