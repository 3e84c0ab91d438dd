import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import type { PlanCopy } from '@licensing/proto/catalog'
import { forFile, planCopy, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  actor,
  archive,
  countedOn,
  events,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  issue,
  restore,
  statusOf,
  verbOn,
  detailOf,
  licenceOf,
  importItems,
  atOnce,
} from '../../test/makers.ts'
import { sendExpiringNotices } from '../sweeps/send-expiring-notices.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

const harness = await forFile(startHarness)

const given = async (count: number) => {
  const plan = await givenPlan(harness)
  const licences = await atOnce(count, () => givenLicence(harness, { planId: plan.id }))
  return { plan, licences }
}
const sync = (...plans: PlanCopy[]) => harness.licensing.syncPlans({ plans })
const canIssueOn = async (plan: PlanCopy) =>
  (await issue(harness, { planId: plan.id }).catch(() => undefined)) !== undefined

test('an archive suspends each active licence, with its event and history entry, and returns their number', async () => {
  const { plan, licences } = await given(3)
  const [first, second, third] = licences
  await harness.licensing.suspendLicence(verbOn(harness, second!))
  const others = await Promise.all(
    (['revoked', 'retired', 'expired', 'downgraded'] as const).map((status) =>
      givenLicenceIn(harness, status, plan.id),
    ),
  )
  const untouched = await Promise.all([second!, ...others].map((licence) => history(harness, licence)))
  expect(await archive(harness, plan)).toMatchObject({ suspendedLicences: 2n })

  for (const licence of [first!, third!]) {
    const now = await licenceOf(harness, licence)
    expect(now).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
    expect((await events(harness, licence)).at(-1)).toEqual({
      type: 'licence.suspended',
      object: { licence_id: licence.id, status: 'suspended', reason: 'plan_archived' },
      previous: null,
    })
    expect((await history(harness, licence)).at(-1)).toEqual({
      type: 'suspended',
      from: 'active',
      to: 'suspended',
      actor,
      cause: `archive:${plan.id}:${plan.archiveVersion}`,
    })
  }
  expect(await Promise.all([second!, ...others].map((licence) => history(harness, licence)))).toEqual(
    untouched,
  )
  expect(await activeOn(harness, plan)).toBe(0n)
})

test('a repeated archive answers the same count and suspends nothing more', async () => {
  const { plan, licences } = await given(2)
  await archive(harness, plan)
  const before = await events(harness)
  expect(await harness.licensing.archivePlan({ plan })).toMatchObject({ suspendedLicences: 2n })
  const asked = { ...plan }
  await restore(harness, plan)
  await harness.licensing.reactivateLicence(verbOn(harness, licences[0]!))
  expect(await harness.licensing.archivePlan({ plan: asked })).toMatchObject({ suspendedLicences: 2n })
  expect(await statusOf(harness, licences[0]!)).toBe('active')
  expect(await events(harness)).toHaveLength(before.length + 1)
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('a restore reactivates no licence; a second archive suspends those that were reactivated since', async () => {
  const { plan, licences } = await given(3)
  await archive(harness, plan)
  await restore(harness, plan)
  expect(await Promise.all(licences.map((licence) => statusOf(harness, licence)))).toEqual(
    Array(3).fill('suspended'),
  )
  await harness.licensing.reactivateLicence(verbOn(harness, licences[1]!))
  expect(await archive(harness, plan)).toMatchObject({ suspendedLicences: 1n })
  expect(await activeOn(harness, plan)).toBe(0n)
})

test('several thousand licences are suspended in one archive', async () => {
  const plan = await givenPlan(harness)
  for (let batch = 0; batch < 11; batch += 1) {
    const items = Array.from({ length: 500 }, (_, at) => ({
      legacyKey: `many-${batch}-${at}`,
      planId: plan.id,
    }))
    await importItems(harness, items)
  }
  expect(await activeOn(harness, plan)).toBe(5_500n)
  const before = (await events(harness)).length
  expect(await archive(harness, plan)).toMatchObject({ suspendedLicences: 5_500n })
  expect(await activeOn(harness, plan)).toBe(0n)
  expect(await countedOn(harness, plan)).toBe(0n)
  const suspended = (await events(harness)).slice(before)
  expect(new Set(suspended.map((event) => event.object['licence_id'])).size).toBe(5_500)
  // Rows contain the number of the statement in their transaction that wrote them.
  const steps = await harness.sql<{ events: number }[]>`
    select count(*)::int as events from outbox group by xmin::text, cmin::text`
  expect(Math.max(...steps.map((step) => step.events))).toBe(100)
})

test('the copy with the higher version wins, in either order', async () => {
  const entitlements = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '0' }]
  const plan = planCopy(harness, { version: 5n, entitlements: entitlements('5') })
  await sync(plan)
  await sync(
    planCopy(harness, { id: plan.id, version: 4n, entitlements: entitlements('4'), status: 'retired' }),
  )
  const licence = await givenLicence(harness, { planId: plan.id })
  const detail = await detailOf(harness, licence)
  expect(detail.entitlements).toMatchObject([{ key: 'seats', value: '5' }])
  await sync(
    planCopy(harness, { id: plan.id, version: 7n, status: 'retired', archiveVersion: 7n }),
    planCopy(harness, { id: plan.id, version: 6n, entitlements: entitlements('6') }),
  )
  expect(await canIssueOn(plan)).toBe(false)
})

test('a changed definition is applied to the copies, as if they had been sent whole; others are named', async () => {
  const key = (name: string, value: string, fallback = '0') => ({
    key: name,
    kind: 'limit',
    value,
    default: fallback,
  })
  const before = [key('api', '1'), key('seats', '5'), key('users', '3')]
  const plan = planCopy(harness, { version: 4n, entitlements: before })
  const stale = planCopy(harness, { version: 3n, entitlements: before })
  const current = planCopy(harness, { version: 6n, entitlements: before })
  const unknown = planCopy(harness)
  await sync(plan, stale, current)
  const scope = { accountId: harness.accountId, applicationId: harness.applicationId, epoch: 0n }
  const changes = [
    {
      definition: { key: 'seats', kind: 'limit', default: '2' },
      after: [before[0]!, key('seats', '9', '2'), before[2]!],
    },
    {
      definition: { key: 'aaa', kind: 'limit', default: '7' },
      after: [key('aaa', '7', '7'), before[0]!, key('seats', '9', '2'), before[2]!],
    },
    {
      definition: { key: 'zzz', kind: 'limit', default: '8' },
      after: [key('aaa', '7', '7'), before[0]!, key('seats', '9', '2'), before[2]!, key('zzz', '8', '8')],
    },
    {
      definition: { key: 'api', kind: 'limit', default: '0', deleted: true },
      after: [key('aaa', '7', '7'), key('seats', '9', '2'), before[2]!, key('zzz', '8', '8')],
    },
  ]
  for (const [at, { definition, after }] of changes.entries()) {
    const version = 5n + BigInt(at)
    const named = (id: string) => ({ planId: id, fromVersion: version - 1n, version, values: { seats: '9' } })
    const ids = at === 0 ? [stale.id, current.id, unknown.id] : [unknown.id]
    const { outdatedPlanIds } = await harness.licensing.syncDefinitions({
      ...scope,
      definitions: [{ deleted: false, ...definition }],
      plans: [named(plan.id), ...ids.map(named)],
    })
    expect(outdatedPlanIds.toSorted()).toEqual(ids.filter((id) => id !== current.id).toSorted())
    const whole = planCopy(harness, { entitlements: after })
    await sync(whole)
    const rows = await harness.sql<{ entitlements: unknown; snapshot_id: string }[]>`
      select entitlements, snapshot_id from plans where id in (${plan.id}, ${whole.id})`
    expect(rows[0]).toEqual(rows[1])
    expect(rows[0]!.entitlements).toEqual(after)
  }
  // A repetition changes nothing.
  const again = { planId: plan.id, fromVersion: 7n, version: 8n, values: {} }
  const { outdatedPlanIds } = await harness.licensing.syncDefinitions({
    ...scope,
    plans: [again],
    expiringNoticeDays: 3,
  })
  expect(outdatedPlanIds).toEqual([])
  const noticed = { planId: plan.id, fromVersion: 8n, version: 9n, values: {} }
  await harness.licensing.syncDefinitions({ ...scope, plans: [noticed], expiringNoticeDays: 3 })
  expect(
    await harness.sql`select expiring_notice_days as days, version from plans where id = ${plan.id}`,
  ).toEqual([{ days: 3, version: 9n }])
})

test('licences within a notice that was raised without sending whole copies get it', async () => {
  const plan = planCopy(harness, { epoch: 1n, version: 1n, expiringNoticeDays: 0 })
  await sync(plan)
  const licence = await givenLicence(harness, {
    planId: plan.id,
    expiresOn: new Date(Date.now() + 5 * 86_400_000),
  })
  const raised = { planId: plan.id, fromVersion: 1n, version: 2n, values: {} }
  const { accountId, applicationId } = harness
  await harness.licensing.syncDefinitions({
    accountId,
    applicationId,
    epoch: 1n,
    plans: [raised],
    expiringNoticeDays: 30,
  })
  await sendExpiringNotices(harness.deps)
  expect((await events(harness, licence)).map(({ type }) => type)).toEqual(['licence.expiring'])
})

test('a copy of a later epoch wins, whatever its version; one of an earlier epoch is ignored', async () => {
  const entitlements = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '0' }]
  const plan = planCopy(harness, { epoch: 1n, version: 9n, entitlements: entitlements('lost') })
  const { id } = plan
  await sync(plan)
  await sync(
    planCopy(harness, { id, epoch: 1n, version: 12n, entitlements: entitlements('lost') }),
    planCopy(harness, { id, epoch: 7n, version: 3n, entitlements: entitlements('kept') }),
  )
  await sync(planCopy(harness, { id, epoch: 1n, version: 15n, entitlements: entitlements('late') }))
  const licence = await givenLicence(harness, { planId: id })
  expect((await detailOf(harness, licence)).entitlements).toMatchObject([{ key: 'seats', value: 'kept' }])
})

test('if catalog has lost an archive, the plan is active again, and its next archive suspends and counts', async () => {
  const { plan, licences } = await given(2)
  await archive(harness, plan)
  const { id, version } = plan
  await sync(planCopy(harness, { id, epoch: 7n, version: version - 1n }))
  expect(await canIssueOn(plan)).toBe(true)
  await harness.licensing.reactivateLicence(verbOn(harness, licences[0]!))
  const archived = planCopy(harness, { id, epoch: 7n, version: 7n, status: 'retired', archiveVersion: 7n })
  expect(await harness.licensing.archivePlan({ plan: archived })).toMatchObject({ suspendedLicences: 2n })
  expect(await canIssueOn(plan)).toBe(false)
  expect(await activeOn(harness, plan)).toBe(0n)
})

test('if catalog has lost the restore of a plan, the plan is retired again and has no active licence', async () => {
  const { plan, licences } = await given(2)
  await archive(harness, plan)
  const retired = { ...plan }
  await restore(harness, plan)
  await harness.licensing.reactivateLicence(verbOn(harness, licences[0]!))
  await sync({ ...retired, epoch: 7n })
  expect(await canIssueOn(plan)).toBe(false)
  expect(await statusOf(harness, licences[0]!)).toBe('suspended')
  expect(await activeOn(harness, plan)).toBe(0n)
})

test('if the epoch of catalog or of licensing changes, all copies are read again without a restart; plans that catalog lost are retired', async () => {
  await using own = await startHarness()
  const plan = await givenPlan(own)
  const lost = await givenPlan(own)
  own.catalog.copies.set(
    plan.id,
    planCopy(own, { ...plan, status: 'retired', archiveVersion: 1n, epoch: 7n }),
  )
  own.catalog.epoch = 7n
  const licence = await givenLicence(own, { planId: plan.id })
  const kept = await givenLicence(own, { planId: lost.id })
  const statuses = () => own.sql`select status from plans where id in (${plan.id}, ${lost.id})`
  await eventually(async () =>
    expect(await statuses()).toEqual([{ status: 'retired' }, { status: 'retired' }]),
  )
  expect(await statusOf(own, licence)).toBe('suspended')
  expect(await statusOf(own, kept)).toBe('active')
  await own.sql`update plans set status = 'active', epoch = 0`
  await own.sql`update event_log_epochs set incarnation = 'of another server'`
  await eventually(async () =>
    expect(await statuses()).toEqual([{ status: 'retired' }, { status: 'retired' }]),
  )
})

test('an archived copy suspends licences even if it arrives by event or push instead of the archive call', async () => {
  const { plan, licences } = await given(1)
  await sync(planCopy(harness, { id: plan.id, version: 2n, status: 'retired', archiveVersion: 2n }))
  expect(await statusOf(harness, licences[0]!)).toBe('suspended')
  const archived = planCopy(harness, { id: plan.id, version: 2n, status: 'retired', archiveVersion: 2n })
  expect(await harness.licensing.archivePlan({ plan: archived })).toMatchObject({ suspendedLicences: 1n })
})

test('a missed archive is applied when the copy of the restored plan arrives', async () => {
  const { plan, licences } = await given(1)
  await sync(planCopy(harness, { id: plan.id, version: 3n, status: 'active', archiveVersion: 2n }))
  expect(await statusOf(harness, licences[0]!)).toBe('suspended')
  expect(await canIssueOn(plan)).toBe(true)
  const late = planCopy(harness, { id: plan.id, version: 2n, status: 'retired', archiveVersion: 2n })
  expect(await harness.licensing.archivePlan({ plan: late })).toMatchObject({ suspendedLicences: 1n })
  expect(await canIssueOn(plan)).toBe(true)
  expect(await activeOn(harness, plan)).toBe(2n)
})

test('an archive that fails half way changes nothing, and succeeds when it is repeated', async () => {
  const { plan, licences } = await given(2)
  const copy = planCopy(harness, { id: plan.id, version: 2n, status: 'retired', archiveVersion: 2n })
  const broken = harness.deps.change(async (tx) => {
    await applyPlanCopies(tx, [copy])
    throw new Error('crashed')
  })
  await expect(broken).rejects.toThrow('crashed')
  expect(await statusOf(harness, licences[0]!)).toBe('active')
  expect(await canIssueOn(plan)).toBe(true)
  expect(await harness.licensing.archivePlan({ plan: copy })).toMatchObject({ suspendedLicences: 3n })
})

test('counts are in the order of the request, zero for an unknown plan, and repeated for a repeated plan', async () => {
  const { plan } = await given(2)
  const other = await given(1)
  const { counts } = await harness.licensing.countActiveLicences({
    planIds: [other.plan.id, 'pln_none', plan.id, other.plan.id],
  })
  expect(counts).toEqual([1n, 0n, 2n, 1n])
  expect((await harness.licensing.countActiveLicences({ planIds: [] })).counts).toEqual([])
})
