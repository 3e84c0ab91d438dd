import { expect, test } from 'vitest'
import { forFile, planCopy, startHarness } from './harness.ts'
import { archive, givenLicence, givenPlan, refusal, licenceOf, list, detailOf, history } from './makers.ts'

const harness = await forFile(startHarness)

test('reading a licence with an unknown suspension reason is an internal error', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  await harness.sql`update licences set status = 'suspended', status_reason = 'whim' where id = ${licence.id}`
  const reads = [detailOf(harness, licence), list(harness, { planId: plan.id })]
  for (const { code } of await Promise.all(reads.map(refusal))) expect(code).toBe('internal')
})

test('reading a history entry of an unknown type is an internal error', async () => {
  const licence = await givenLicence(harness)
  await harness.sql`
    insert into licence_history (licence_id, type, to_status, actor) values (${licence.id}, 'thawed', 'active', 'key_1')`
  expect((await refusal(history(harness, licence))).code).toBe('internal')
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
  const now = await licenceOf(harness, licence)
  expect(now.status).toBe('active')
  expect(await archive(harness, plan)).toMatchObject({ suspendedLicences: 1n })
})
