import { afterAll, beforeAll, expect, test } from 'vitest'
import { planCopy, startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import { archive, givenLicence, givenPlan, refusal, verbOn } from './makers.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test('reading a licence with an unknown suspension reason is an internal error', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  await harness.sql`update licences set status = 'suspended', status_reason = 'whim' where id = ${licence.id}`
  const { accountId, applicationId, licensing } = harness
  const reads = [
    licensing.getLicence(verbOn(harness, licence)),
    licensing.listLicences({
      accountId,
      applicationId,
      planId: plan.id,
      beforeId: '',
      neverSeen: false,
      limit: 10,
    }),
  ]
  for (const { code } of await Promise.all(reads.map(refusal))) expect(code).toBe('internal')
})

test('reading a history entry of an unknown type is an internal error', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  await harness.sql`
    insert into licence_history (licence_id, type, to_status, actor) values (${licence.id}, 'thawed', 'active', 'key_1')`
  const { accountId, licensing } = harness
  const read = licensing.listLicenceHistory({
    accountId,
    licenceId: licence.id,
    beforePosition: 0n,
    limit: 10,
  })
  expect((await refusal(read)).code).toBe('internal')
})

test.each([
  ['status', { status: 'frozen' }],
  ['kind of entitlement', { entitlements: [{ key: 'seats', kind: 'colour', value: '1', default: '1' }] }],
])('a plan copy with an unknown %s is refused, and nothing is stored', async (_, fields) => {
  const plan = planCopy(harness, fields)
  expect((await refusal(harness.licensing.syncPlans({ plans: [plan] }))).code).toBe('internal')
  expect(await harness.sql`select id from plans where id = ${plan.id}`).toHaveLength(0)
})

test('an archived copy with an unknown status suspends nothing', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const frozen = { ...plan, status: 'frozen', version: plan.version + 1n, archiveVersion: plan.version + 1n }
  expect((await refusal(harness.licensing.archivePlan({ plan: frozen }))).code).toBe('internal')
  const { licence: now } = await harness.licensing.getLicence(verbOn(harness, licence))
  expect(now!.status).toBe('active')
  expect(await archive(harness, plan)).toMatchObject({ suspendedLicences: 1n })
})
