import { fullTest } from '@licensing/test-support/drawn'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import { setQuota } from '@licensing/quotas/quota-queries'
import { expect, test } from 'vitest'
import { forFile } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  countedOn,
  eventTypes,
  givenPlan,
  history,
  restore,
  refusal,
  atOnce,
  settledAtOnce,
} from '../../test/makers.ts'
import {
  codes,
  expectNoDeadlock,
  fulfilled,
  rounds,
  startReplicas,
  untilAvailable,
} from '../../test/races.ts'

const { harness, either } = await forFile(startReplicas)

/** A plan with trials, in a new application. */
const givenTrialPlan = () => givenPlan(harness, { code: 'trial', trialDays: 14, applicationId: newId('app') })

const start = ({ products }: Harness, { code, applicationId }: PlanCopy, fingerprint: string) =>
  products.startTrial({
    applicationId,
    planCode: code,
    fingerprint,
    host: 'localhost',
    productVersion: '1',
    address: '198.51.100.7',
    maxForAddress: 100_000,
  })

const countLicences = async (plan: PlanCopy) => {
  const [row] = await harness.sql<
    { licences: number; trials: number; activations: number; started: number }[]
  >`
    select (select count(*)::int from licences where application_id = ${plan.applicationId}) as licences,
      (select count(*)::int from trials where application_id = ${plan.applicationId}) as trials,
      (select count(*)::int from activations where application_id = ${plan.applicationId}) as activations,
      coalesce((select started from trial_days where application_id = ${plan.applicationId}), 0) as started`
  return row!
}

fullTest('50 starts of one machine at once on two replicas are one trial with one activation', async () => {
  for (const _round of rounds) {
    const plan = await givenTrialPlan()
    const answers = await atOnce(50, (at) => untilAvailable(() => start(either(at), plan, 'machine')))
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
    expect(
      new Set(
        answers.map(({ grant, licenceKey }) => [grant!.licenceId, grant!.activationId, licenceKey].join()),
      ).size,
    ).toBe(1)
    const licence = { id: answers[0]!.grant!.licenceId }
    expect(await eventTypes(harness, licence)).toEqual(['licence.trial_started'])
    expect(await history(harness, licence)).toHaveLength(1)
    expect(await activeOn(harness, plan)).toBe(1n)
    expect(await countLicences(plan)).toEqual({ licences: 1, trials: 1, activations: 1, started: 1 })
  }
  await expectNoDeadlock(harness)
})

test('of 30 machines that compete for the last 5 trials of the day, on two replicas, 5 get one', async () => {
  const { accountId, sql } = harness
  const plan = await givenTrialPlan()
  const known = await start(harness, plan, 'known')
  await setQuota(sql, accountId, 'trials_per_day', 6)
  const outcomes = await settledAtOnce(30, (at) =>
    untilAvailable(() => start(either(at), plan, `machine-${at}`)),
  )
  expect(codes(outcomes).toSorted()).toEqual([...Array(5).fill('ok'), ...Array(25).fill('quota_exceeded')])
  expect(await countLicences(plan)).toEqual({ licences: 6, trials: 6, activations: 6, started: 6 })
  expect(await refusal(start(harness, plan, 'another'))).toMatchObject({
    code: 'quota_exceeded',
    message: expect.stringContaining('6 new trials a day'),
    members: { limit: 6 },
  })

  // A running trial does not count again. The next day and another application have their own trials.
  expect(await start(harness, plan, 'known')).toMatchObject({ created: false, licenceKey: known.licenceKey })
  await sql`update trial_days set day = day - 1 where application_id = ${plan.applicationId}`
  expect(await start(harness, plan, 'another')).toMatchObject({ created: true })
  expect(await countLicences(plan)).toMatchObject({ licences: 7, started: 1 })
  expect(await start(harness, await givenTrialPlan(), 'machine')).toMatchObject({ created: true })
  await setQuota(sql, accountId, 'trials_per_day', 0)
  expect((await refusal(start(harness, await givenTrialPlan(), 'machine'))).code).toBe('quota_exceeded')
  await setQuota(sql, accountId, 'trials_per_day', 1_000)
})

test('a transaction that began before midnight does not count from the beginning again', async () => {
  const plan = await givenTrialPlan()
  await start(harness, plan, 'one')
  // As if another transaction had counted since midnight.
  await harness.sql`update trial_days set day = day + 1, started = 7 where application_id = ${plan.applicationId}`
  await start(harness, plan, 'two')
  expect(await countLicences(plan)).toMatchObject({ started: 8 })
})

test('starts that race an archive fail, or their licences are suspended', async () => {
  for (const _round of rounds) {
    const plan = await givenTrialPlan()
    const starts = Array.from({ length: 10 }, (_, at) =>
      untilAvailable(() => start(either(at), plan, `machine-${at}`)),
    )
    const archived = untilAvailable(() => archive(harness, plan))
    const outcomes = await Promise.allSettled(starts)
    await archived
    expect(codes(outcomes).filter((code) => code !== 'ok' && code !== 'plan_archived')).toEqual([])
    expect(await countedOn(harness, plan)).toBe(0n)
    expect(await activeOn(harness, plan)).toBe(0n)
    const made = fulfilled(outcomes)
    expect(await countLicences(plan)).toMatchObject({ licences: made.length, trials: made.length })
    for (const { grant } of made) {
      const types = await eventTypes(harness, { id: grant!.licenceId })
      expect(types).toEqual(['licence.trial_started', 'licence.suspended'])
    }
    await restore(harness, plan)
    // A machine that was refused has had no trial.
    const refusedAt = outcomes.findIndex(({ status }) => status === 'rejected')
    if (refusedAt >= 0)
      expect(await start(harness, plan, `machine-${refusedAt}`)).toMatchObject({ created: true })
  }
  await expectNoDeadlock(harness)
})
