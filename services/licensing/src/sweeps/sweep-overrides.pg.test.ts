import { createChange } from '@licensing/changes/change'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  verbOn,
  changesOf,
} from '../../test/makers.ts'
import { effectiveOf, letEndsPass, setOverride } from '../../test/overrides.ts'
import { inDays } from '../../test/purchases.ts'
import { sweepOverrides } from './sweep-overrides.ts'

const harness = await forFile(startHarness)

const entitlements = [
  { key: 'export', kind: 'feature', value: 'true', default: 'false' },
  { key: 'seats', kind: 'limit', value: '5', default: '1' },
]
const changed = 'licence.entitlements_changed'
const sweep = () => sweepOverrides(harness.deps)
const given = async () => givenLicence(harness, { planId: (await givenPlan(harness, { entitlements })).id })
const endsOn = inDays(1)

test('the end of overrides is in the history once, and products get the snapshot’s values', async () => {
  const licence = await given()
  await setOverride(harness, licence, 'seats', { value: '50', endsOn, note: 'for a week' })
  await setOverride(harness, licence, 'export', { value: 'false', endsOn })
  await sweep()
  expect(await changesOf(harness, licence)).toHaveLength(2)
  await letEndsPass(harness, licence)
  await sweep()
  await sweep()
  const ends = { ends_on: expect.any(String) as string }
  expect((await changesOf(harness, licence)).slice(2)).toEqual([
    {
      actor: 'sweep',
      changes: {
        'overrides.export': { from: { value: 'false', ...ends, note: null }, to: null },
        'overrides.seats': { from: { value: '50', ...ends, note: 'for a week' }, to: null },
      },
    },
  ])
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'true snapshot', seats: '5 snapshot' })
  const sent = await events(harness, licence)
  expect(sent.map(({ type }) => type)).toEqual([changed, changed, changed])
  expect(sent.at(-1)!.object).toEqual({ licence_id: licence.id, status: 'active' })
})

test('an end that changes no value is recorded without an event', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const same = await givenLicence(harness, { planId: plan.id })
  await setOverride(harness, same, 'seats', { value: '5', endsOn })
  const downgraded = await givenLicenceIn(harness, 'downgraded', plan.id)
  await setOverride(harness, downgraded, 'seats', { value: '50', endsOn })
  const before = await eventTypes(harness)
  await letEndsPass(harness, same)
  await letEndsPass(harness, downgraded)
  await sweep()
  expect(await changesOf(harness, same)).toHaveLength(2)
  expect(await changesOf(harness, downgraded)).toHaveLength(2)
  expect(await eventTypes(harness)).toEqual(before)
})

test('the end of an override of a revoked licence is recorded, too', async () => {
  const licence = await given()
  await setOverride(harness, licence, 'seats', { value: '50', endsOn })
  await harness.licensing.revokeLicence(verbOn(harness, licence))
  await letEndsPass(harness, licence)
  await sweep()
  expect(await changesOf(harness, licence)).toHaveLength(2)
  expect((await events(harness, licence)).at(-1)).toMatchObject({
    type: changed,
    object: { status: 'revoked' },
  })
})

test('a licence that another transaction has locked is left for the next sweep, which does not wait', async () => {
  const [held, free] = [await given(), await given()]
  for (const licence of [held, free]) {
    await setOverride(harness, licence, 'seats', { value: '50', endsOn })
    await letEndsPass(harness, licence)
  }
  await harness.sql.begin(async (tx) => {
    await tx`select id from licences where id = ${held.id} for update`
    await sweep()
    expect(await changesOf(harness, free)).toHaveLength(2)
  })
  expect(await changesOf(harness, held)).toHaveLength(1)
  await sweep()
  expect(await changesOf(harness, held)).toHaveLength(2)
})

test('after a downtime, replicas that sweep at once record each end once', async () => {
  const plan = await givenPlan(harness, { entitlements })
  const count = 900
  const { sql, accountId, applicationId } = harness
  const prefix = `lic_due_${plan.id}`
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id)
    select ${prefix} || n, ${prefix} || n, ${accountId}, ${applicationId}, p.id, 'active', 'customer', p.snapshot_id
    from plans p cross join generate_series(1, ${count}::int) as n where p.id = ${plan.id}`
  // A licence of the plan stores its snapshot.
  await givenLicence(harness, { planId: plan.id })
  await sql`
    insert into licence_overrides (licence_id, key, kind, value, ends_on)
    select id, name, 'limit', '7', now() - interval '1 minute'
    from licences cross join unnest(array['seats', 'projects']) as name where id like ${`${prefix}%`}`
  const before = (await eventTypes(harness)).length
  const replicas = [1, 2, 3].map(() => createChange(sql))
  await Promise.all(replicas.map((change) => sweepOverrides({ sql, change })))
  await sweep()
  const sent = (await events(harness)).slice(before)
  expect(sent).toHaveLength(count)
  expect(new Set(sent.map(({ object }) => object['licence_id'])).size).toBe(count)
  const [row] = await sql<{ entries: number; ends: number }[]>`
    select count(*)::int as entries, sum((select count(*) from jsonb_object_keys(changes)))::int as ends
    from licence_history where licence_id like ${`${prefix}%`}`
  expect(row).toEqual({ entries: count, ends: 2 * count })
})
