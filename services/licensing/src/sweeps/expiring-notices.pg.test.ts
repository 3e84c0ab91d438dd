import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { createChange } from '@licensing/changes/change'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import { closedSets } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  findWrongStatuses,
  licenceOf,
  update,
  detailOf,
  history,
  atOnce,
} from '../../test/makers.ts'
import { apply, buy, daysAgo, happen, inDays, provision, renew, unique } from '../../test/purchases.ts'
import { sendExpiringNotices } from './send-expiring-notices.ts'

const harness = await forFile(startHarness)

const send = () => sendExpiringNotices(harness.deps)

/** The ends for which notices of a licence were sent. */
async function noticesOf(licence: { id: string }): Promise<unknown[]> {
  return (await events(harness, licence))
    .filter(({ type }) => type === 'licence.expiring')
    .map(({ object }) => object['expires_on'])
}

/** Sets the licence's end to `days` from now, as if this had been done `daysBefore` days before the end. */
async function setEnd({ id }: { id: string }, days: number, daysBefore: number): Promise<Date> {
  const end = inDays(days)
  await harness.sql`update licences set expires_on = ${end.toISOString()} where id = ${id}`
  await harness.sql`
    update licence_statuses set expires_on_since = expires_on - ${daysBefore}::float8 * interval '24 hours'
    where licence_id = ${id}`
  return end
}

/** Moves all times of a licence back, as if so many days had passed. */
async function pass({ id }: { id: string }, days: number): Promise<Date> {
  const { sql } = harness
  const passed = sql`${days}::float8 * interval '24 hours'`
  const [before] = await sql<{ since: string }[]>`
    select expires_on_since::text as since from licence_statuses where licence_id = ${id}`
  const [licence] = await sql<{ expires_on: Date }[]>`
    update licences set expires_on = expires_on - ${passed} where id = ${id} returning expires_on`
  await sql`
    update licence_statuses set expires_on_since = ${before!.since}::text::timestamptz - ${passed} where licence_id = ${id}`
  await sql`
    update purchases set ends_at = ends_at - ${passed}, bought_ends_at = bought_ends_at - ${passed}
    where licence_id = ${id}`
  return licence!.expires_on
}

async function changeNotice(plan: PlanCopy, expiringNoticeDays: number): Promise<void> {
  plan.version += 1n
  plan.expiringNoticeDays = expiringNoticeDays
  await harness.licensing.syncPlans({ plans: [plan] })
}

const second = 1 / 86_400

/** Days left, days left when that end was set, and the application's number. */
const cases: [what: string, left: number, whenSet: number, notice: number, sent: boolean][] = [
  ['inside the notice', 13.99, 30, 14, true],
  ['not yet inside', 14.01, 30, 14, false],
  ['almost over', second, 30, 14, true],
  ['over, but not swept', -second, 30, 14, false],
  ['set with exactly the notice left', 13.99, 14, 14, false],
  ['set with less than the notice left', 5, 13, 14, false],
  ['set with a little more than the notice left', 13.99, 14 + second, 14, true],
  ['no notice at all', 1, 400, 0, false],
  ['the longest notice', 89.99, 365, 90, true],
  ['outside the longest notice', 90.01, 365, 90, false],
  ['the shortest notice', 0.99, 2, 1, true],
]

test.each(cases)('a notice for a licence that is %s', async (_what, left, whenSet, notice, sent) => {
  const plan = await givenPlan(harness, { expiringNoticeDays: notice })
  const licence = await givenLicence(harness, { planId: plan.id })
  const end = await setEnd(licence, left, whenSet)
  expect(await send()).toBe(Number(sent))
  expect(await noticesOf(licence)).toEqual(sent ? [end.toISOString()] : [])
  expect(await send()).toBe(0)
})

test('only active, suspended and downgraded licences get a notice, which changes nothing of them', async () => {
  const plan = await givenPlan(harness)
  for (const status of closedSets.licenceStatus) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    const end = await setEnd(licence, 10, 30)
    const before = [await detailOf(harness, licence), await history(harness, licence)]
    const isSent = ['active', 'suspended', 'downgraded'].includes(status)
    expect([status, await send()]).toEqual([status, Number(isSent)])
    const notices = (await events(harness, licence)).filter(({ type }) => type === 'licence.expiring')
    const object = { licence_id: licence.id, status, expires_on: end.toISOString() }
    expect(notices).toEqual(isSent ? [{ type: 'licence.expiring', object, previous: null }] : [])
    expect([await detailOf(harness, licence), await history(harness, licence)]).toEqual(before)
  }
})

test('each value of the end gets one notice', async () => {
  const plan = await givenPlan(harness, { expiringNoticeDays: 30 })
  const licence = await givenLicence(harness, { planId: plan.id })
  const first = await setEnd(licence, 20, 60)
  expect(await send()).toBe(1)
  const second = await setEnd(licence, 25, 60)
  expect(await send()).toBe(1)
  await update(harness, licence, { expiresOn: timestampFromDate(first) })
  expect(await send()).toBe(0)
  expect(await noticesOf(licence)).toEqual([first.toISOString(), second.toISOString()])
})

/** Ways in which a licence gets an end: `days` after now. */
const writers: Record<string, (plan: PlanCopy, days: number) => Promise<{ id: string }>> = {
  issue: (plan, days) => givenLicence(harness, { planId: plan.id, expiresOn: inDays(days) }),
  'a payment': async (plan, days) =>
    (await provision(harness, { planId: plan.id, externalRef: unique('buyer'), expiresOn: inDays(days) }))
      .licence,
  'a renewal': async (plan, days) => {
    const payment = { planId: plan.id, externalRef: unique('buyer'), expiresOn: inDays(1) }
    const { licence } = await provision(harness, payment)
    return renew(harness, licence, inDays(days))
  },
  'a trial': async (plan, days) => {
    const { applicationId } = harness
    const code = unique('code')
    plan.version += 1n
    await givenPlan(harness, { id: plan.id, code, trialDays: days, version: plan.version })
    const machine = { fingerprint: unique('m'), host: 'localhost', productVersion: '1' }
    const { grant } = await harness.products.startTrial({ applicationId, planCode: code, ...machine })
    return { id: grant!.licenceId }
  },
}

test.each(Object.entries(writers))(
  '%s sets an end: no notice if fewer days are left than the notice, but one when a later end comes near',
  async (_way, write) => {
    const plan = await givenPlan(harness)
    const near = await write(plan, 14)
    expect(await send()).toBe(0)
    await pass(near, 7)
    expect(await send()).toBe(0)
    const far = await write(plan, 15)
    expect(await send()).toBe(0)
    const end = await pass(far, 2)
    expect(await send()).toBe(1)
    expect(await noticesOf(near)).toEqual([])
    expect(await noticesOf(far)).toEqual([end.toISOString()])
    expect(await findWrongStatuses(harness)).toEqual([])
  },
)

test('if the notice becomes longer, licences inside it that have had no notice get one, once', async () => {
  const plan = await givenPlan(harness)
  const [notified, within, trial, outside, perpetual] = await atOnce(5, () =>
    givenLicence(harness, { planId: plan.id }),
  )
  await setEnd(notified!, 10, 60)
  await setEnd(within!, 20, 25)
  await setEnd(trial!, 12, 14)
  await setEnd(outside!, 31, 60)
  expect(await send()).toBe(1)
  await changeNotice(plan, 30)
  // At most that many days are left when this value is set.
  const later = await givenLicence(harness, { planId: plan.id, expiresOn: inDays(20) })
  expect(await send()).toBe(2)
  expect(await send()).toBe(0)
  const counts = await Promise.all([notified!, within!, trial!, outside!, perpetual!, later].map(noticesOf))
  expect(counts.map((notices) => notices.length)).toEqual([1, 1, 1, 0, 0, 0])
  await pass(outside!, 2)
  expect(await send()).toBe(1)
})

test('a shorter notice is sent when it begins; 0 turns the notice off, and a number turns it on again', async () => {
  const plan = await givenPlan(harness)
  const [notified, within, later] = await atOnce(3, () => givenLicence(harness, { planId: plan.id }))
  await setEnd(notified!, 13, 30)
  await setEnd(within!, 10, 10)
  expect(await send()).toBe(1)
  await changeNotice(plan, 7)
  expect(await send()).toBe(0)
  await pass(within!, 4)
  expect(await send()).toBe(1)
  expect(await noticesOf(within!)).toHaveLength(1)
  await changeNotice(plan, 0)
  await setEnd(later!, 3, 30)
  expect(await send()).toBe(0)
  await changeNotice(plan, 5)
  expect(await send()).toBe(1)
  expect(await noticesOf(later!)).toHaveLength(1)
  await changeNotice(plan, 0)
  await changeNotice(plan, 5)
  expect(await send()).toBe(0)
})

test('a licence that a renewing subscription governs gets a notice only after its cancellation for the period’s end', async () => {
  const plan = await givenPlan(harness)
  const payment = { planId: plan.id, orderedAt: daysAgo(50), endsAt: inDays(30), renews: true }
  const bought = await buy(harness, payment)
  const { licence } = bought
  await pass(licence, 20)
  expect(await send()).toBe(0)
  await apply(harness, bought, { kind: 'renewal_stopped' }, daysAgo(3))
  await apply(harness, bought, { kind: 'renewal_resumed' }, daysAgo(2))
  expect(await send()).toBe(0)
  await apply(harness, bought, { kind: 'renewal_stopped' }, daysAgo(1))
  expect(await send()).toBe(1)
  expect(await send()).toBe(0)
})

test('if a subscription is cancelled before its notice is due, the notice is sent in time', async () => {
  const plan = await givenPlan(harness)
  const payment = { planId: plan.id, orderedAt: daysAgo(50), endsAt: inDays(30), renews: true }
  const bought = await buy(harness, payment)
  await apply(harness, bought, { kind: 'renewal_stopped' }, daysAgo(3))
  expect(await send()).toBe(0)
  await pass(bought.licence, 20)
  expect(await send()).toBe(1)
})

test('if another purchase with the same end comes to govern the licence, that purchase counts', async () => {
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const endsAt = inDays(30)
  const once = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(60), endsAt })
  const bought = await buy(harness, {
    planId: plan.id,
    externalRef,
    orderedAt: daysAgo(50),
    endsAt,
    renews: true,
  })
  const { licence } = bought
  expect(licence.id).toBe(once.licence.id)
  const end = await pass(licence, 20)
  expect(await send()).toBe(0)
  await apply(harness, bought, { kind: 'refunded' }, daysAgo(1))
  expect(await send()).toBe(1)
  expect(await noticesOf(licence)).toEqual([end.toISOString()])
})

test('a licence that is no longer expired gets the notice that it has not had', async () => {
  const plan = await givenPlan(harness)
  const { licence } = await provision(harness, {
    planId: plan.id,
    externalRef: unique('buyer'),
    expiresOn: inDays(30),
  })
  const end = await pass(licence, 20)
  await happen(harness, licence, 'a cancelled subscription')
  expect(await send()).toBe(0)
  const expiresOn = timestampFromDate(end)
  await update(harness, licence, { expiresOn })
  expect(await send()).toBe(1)
  expect(await noticesOf(licence)).toEqual([end.toISOString()])
})

test('after a change of the plan, the notice of the new plan applies', async () => {
  const [plan, longer] = [await givenPlan(harness), await givenPlan(harness, { expiringNoticeDays: 30 })]
  // The notices of the other plan have come this far.
  const ahead = await givenLicence(harness, { planId: longer.id })
  await setEnd(ahead, 29, 60)
  expect(await send()).toBe(1)
  const licence = await givenLicence(harness, { planId: plan.id })
  await setEnd(licence, 20, 60)
  expect(await send()).toBe(0)
  await harness.sql`update licences set plan_id = ${longer.id} where id = ${licence.id}`
  expect(await send()).toBe(1)
})

test('a licence that another transaction has locked is left for the next round, which does not wait', async () => {
  const plan = await givenPlan(harness)
  const [held, free] = [
    await givenLicence(harness, { planId: plan.id }),
    await givenLicence(harness, { planId: plan.id }),
  ]
  await setEnd(held, 10, 30)
  await setEnd(free, 11, 30)
  await harness.sql.begin(async (tx) => {
    await tx`select id from licences where id = ${held.id} for update`
    expect(await send()).toBe(1)
    expect(await noticesOf(free)).toHaveLength(1)
  })
  expect(await noticesOf(held)).toHaveLength(0)
  expect(await send()).toBe(1)
})

test('an end that is changed while its notice is checked is not announced any more', async () => {
  const licence = await givenLicence(harness)
  await setEnd(licence, 10, 30)
  await harness.sql.begin(async (tx) => {
    await tx`update licences set expires_on = now() + interval '40 days' where id = ${licence.id}`
    expect(await send()).toBe(0)
  })
  expect(await send()).toBe(0)
  expect(await noticesOf(licence)).toEqual([])
})

test('after a downtime it catches up, and replicas that check at the same time notify each licence once', async () => {
  const plan = await givenPlan(harness)
  await insertEnding(plan.id, 2_300, 'same')
  await insertEnding(plan.id, 2_200, 'spread')
  const before = (await eventTypes(harness)).length
  const replicas = [1, 2, 3].map(() => createChange(harness.sql))
  const sent = await Promise.all(replicas.map((change) => sendExpiringNotices({ sql: harness.sql, change })))
  const last = await send()
  expect(sent.reduce((sum, one) => sum + one, last)).toBe(4_500)
  const notices = (await events(harness)).slice(before)
  expect(notices).toHaveLength(4_500)
  expect(new Set(notices.map(({ object }) => object['licence_id'])).size).toBe(4_500)
})

test('if ends and notices change while replicas check, no end is announced twice', async () => {
  const plan = await givenPlan(harness)
  const licences = await atOnce(10, () => givenLicence(harness, { planId: plan.id }))
  const replicas = [1, 2].map(() => createChange(harness.sql))
  for (let round = 0; round < 10; round += 1) {
    await Promise.all([
      ...licences.map((licence, at) => setEnd(licence, 5 + ((at + round) % 3), 60)),
      ...replicas.map((change) => sendExpiringNotices({ sql: harness.sql, change })),
      changeNotice(plan, 14 + round),
    ])
  }
  await send()
  for (const licence of licences) {
    const notices = await noticesOf(licence)
    expect(notices.length).toBeGreaterThan(0)
    expect(new Set(notices).size).toBe(notices.length)
    const now = await licenceOf(harness, licence)
    expect(notices).toContain(
      new Date(Number(now.expiresOn!.seconds) * 1000 + now.expiresOn!.nanos / 1e6).toISOString(),
    )
  }
})

/** Licences whose ends came within the notice while no replica checked. */
async function insertEnding(planId: string, count: number, ends: 'same' | 'spread'): Promise<void> {
  const { sql, accountId, applicationId } = harness
  const ids = Array.from({ length: count }, () => newId('lic'))
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, expires_on, snapshot_id)
    select id, id, ${accountId}, ${applicationId}, ${planId}, 'active', 'customer',
      ${inDays(5).toISOString()}::timestamptz + place % ${ends === 'same' ? 1 : 1_000}::bigint * interval '1 minute',
      (select snapshot_id from plans where id = ${planId})
    from unnest(${ids}::text[]) with ordinality as licence (id, place)`
  await sql`
    update licence_statuses set expires_on_since = now() - interval '60 days' where licence_id = any(${ids}::text[])`
}
