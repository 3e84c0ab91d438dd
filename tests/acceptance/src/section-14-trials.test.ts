import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { givenStudio } from './section-14.ts'
import { dayMs, expectNotFound, expectProblem, expectRefused, expectStatus, inMs } from './vendor.ts'

const studio = await givenStudio()
const { api, app, detail, history, heard, patch, verb, tryOut } = studio
const plan = await studio.plan({ trial_days: 14 })

/** Starts a trial. It retries, because licensing may not know a new plan yet. */
async function started(code = plan.code, fingerprint: string = randomUUID()) {
  const answer = await eventually(async () => {
    const tried = await tryOut(code, fingerprint)
    expectStatus(tried, 201)
    return tried
  })
  return { ...answer.body, fingerprint }
}

test('a product starts a trial without a key, and the licence, its events, its history and the lists say so', async () => {
  const trial = await started()
  const { licence_id: id, activation_id, fingerprint } = trial
  const licence = await detail(id)
  expect(licence).toMatchObject({
    key: trial.licence_key,
    status: 'active',
    trial: true,
    plan_id: plan.id,
    external_ref: `trial_${id}`,
    restrictions: { max_activations: 1 },
    activations: [{ id: activation_id, fingerprint }],
  })
  const days = (Date.parse(licence.expires_on!) - Date.parse(licence.created_at)) / dayMs
  expect(days).toBeCloseTo(14, 1)
  await eventually(() => expect(heard('licence.trial_started', id)).toHaveLength(1))
  const event = { licence_id: id, plan_id: plan.id, status: 'active' }
  expect(heard('licence.trial_started', id)[0]!.data.object).toEqual(event)
  expect(await history(id)).toMatchObject([{ type: 'trial_started', actor: 'product' }])

  const issued = await studio.issue(plan.id)
  const listed = async (query: string) => (await studio.licences(query)).map((row) => row.id)
  expect(await listed('?trial=true')).toEqual([id])
  expect(await listed('?trial=false')).toEqual([issued.id])
})

test('the same machine gets the same trial while it runs, also after its activation was freed', async () => {
  const { licence_id, licence_key, activation_id, fingerprint } = await started()
  for (const again of await Promise.all([1, 2, 3].map(() => tryOut(plan.code, fingerprint)))) {
    expect(again).toMatchObject({ status: 200, body: { licence_id, licence_key, activation_id } })
  }
  await api.delete(`/v1/licences/${licence_id}/activations/${activation_id}`)
  const again = await tryOut(plan.code, fingerprint)
  expect(again).toMatchObject({ status: 200, body: { licence_id } })
  expect(again.body.activation_id).not.toBe(activation_id)
  await studio.settled()
  expect(heard('licence.trial_started', licence_id)).toHaveLength(1)
})

test('a machine can have only one trial of an application ever', async () => {
  const refused = async (fingerprint: string, reason: string, code = plan.code) =>
    expectRefused(await tryOut(code, fingerprint), reason)
  const suspended = await started()
  await verb('suspend', suspended.licence_id)
  await refused(suspended.fingerprint, 'suspended')
  await verb('reactivate', suspended.licence_id)
  expectStatus(await tryOut(plan.code, suspended.fingerprint), 200)

  const other = await studio.plan({ trial_days: 3 })
  await started(other.code)
  for (const end of [
    (id: string) => verb('revoke', id),
    (id: string) => verb('retire', id),
    (id: string) => patch(id, { expires_on: inMs(1_500) }),
    (id: string) => patch(id, { external_ref: `customer-${randomUUID()}` }),
  ]) {
    const trial = await started()
    expectStatus(await end(trial.licence_id), 200)
    await eventually(() => refused(trial.fingerprint, 'trial_used'))
    await refused(trial.fingerprint, 'trial_used', other.code)
  }
})

test('concurrent requests with the same fingerprint share one trial', async () => {
  await started()
  const fingerprint = randomUUID()
  const answers = await Promise.all(Array.from({ length: 20 }, () => tryOut(plan.code, fingerprint)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(19)
  expect(new Set(answers.map(({ body }) => body.licence_id)).size).toBe(1)
})

test('an unknown code and a plan without trials are 404, a retired plan is 409 for a new trial', async () => {
  for (const code of ['no-such-plan', '', 'a b', (await studio.plan()).code]) {
    expectNotFound(await tryOut(code))
  }
  const retired = await studio.plan({ trial_days: 7 })
  const running = await started(retired.code)
  await api.post(`${app}/plans/${retired.id}/archive`)
  await eventually(async () => expectProblem(await tryOut(retired.code), 409, 'plan_archived'))
  // The archive of the plan suspended the licence.
  expectRefused(await tryOut(retired.code, running.fingerprint), 'suspended')
})

test('a trial becomes a customer’s licence when its reference is set, and a payment for that reference applies to it', async () => {
  const { licence_id: id } = await started()
  const external_ref = `customer-${randomUUID()}`
  expect((await patch(id, { external_ref })).body).toMatchObject({ id, external_ref })
  expect((await studio.sell({ external_ref, plan_id: plan.id })).body.licence_id).toBe(id)
  expect(await detail(id)).toMatchObject({ trial: false, expires_on: null, status: 'active' })
})

test('the number of new trials of an application per day is limited', async () => {
  const { stack } = studio.market
  const other = await givenStudio(studio.market)
  const { code } = await other.plan({ trial_days: 14 })
  const set = (max: string) =>
    runAdmin(stack, 'set-quota', '--account', stack.accountId, '--trials-per-day', max)
  expect(await set('2')).toMatchObject({ code: 0 })
  try {
    await eventually(async () => expectStatus(await other.tryOut(code, 'first'), 201))
    expectStatus(await other.tryOut(code), 201)
    expect(expectProblem(await other.tryOut(code), 409, 'quota_exceeded')).toMatchObject({ limit: 2 })
    expectStatus(await other.tryOut(code, 'first'), 200)
  } finally {
    await set('1000')
  }
})

test('the SDK starts a trial, keeps its key, and says when the machine has had its trial', async () => {
  await started()
  const fingerprint = 'machine-of-the-sdk'
  using product = studio.install({ fingerprint })
  const state = await product.startTrial(plan.code)
  expect(state).toMatchObject({ status: 'licensed', planId: plan.id })
  expect(product.licenceKey).toBe((await detail(state.licenceId!)).key)
  await verb('revoke', state.licenceId!)
  using again = studio.install({ fingerprint })
  expect(await again.startTrial(plan.code)).toMatchObject({ status: 'refused', reason: 'trial_used' })
  using another = studio.install()
  const unknown = { status: 'refused', reason: 'unknown_plan' }
  expect(await another.startTrial('no-such-plan')).toMatchObject(unknown)
})
