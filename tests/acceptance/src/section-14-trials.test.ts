import { LicenceClient } from '@licensing/sdk'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dayMs, expectStatus, givenStudio, inMs } from './section-14.ts'
import type { FullLicence, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { allRows, expectProblem } from './vendor.ts'
import type { Plan } from './vendor.ts'

let market: Market
let studio: Studio
let plan: Plan
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  plan = await studio.plan({ trial_days: 14 })
})
afterAll(() => market[Symbol.asyncDispose]())

/** Starts a trial. It retries, because licensing may not know a new plan yet. */
async function started(code = plan.code, fingerprint: string = randomUUID()) {
  const answer = await eventually(async () => {
    const tried = await studio.tryOut(code, fingerprint)
    expectStatus(tried, 201)
    return tried
  })
  return { ...answer.body, fingerprint }
}

test('a product starts a trial without a key, and the licence, its events and its history say so', async () => {
  const { detail, heard, history } = studio
  const trial = await started()
  const licence = await detail(trial.licence_id)
  expect(licence).toMatchObject({
    key: trial.licence_key,
    status: 'active',
    trial: true,
    plan_id: plan.id,
    external_ref: `trial_${trial.licence_id}`,
    restrictions: { max_activations: 1 },
  })
  const days = (Date.parse(licence.expires_on!) - Date.parse(licence.created_at)) / dayMs
  expect(days).toBeGreaterThan(13.99)
  expect(days).toBeLessThan(14.01)
  expect(licence.activations).toMatchObject([{ id: trial.activation_id, fingerprint: trial.fingerprint }])
  await eventually(() => expect(heard('licence.trial_started', licence.id)).toHaveLength(1))
  expect(heard('licence.trial_started', licence.id)[0]!.data.object).toEqual({
    licence_id: licence.id,
    plan_id: plan.id,
    status: 'active',
  })
  expect((await history(licence.id)).map(({ type, actor }) => [type, actor])).toEqual([
    ['trial_started', 'product'],
  ])
})

test('the same machine gets the same trial while it runs, also after its activation was freed', async () => {
  const { api, tryOut, heard, settled } = studio
  const trial = await started()
  for (const again of await Promise.all([1, 2, 3].map(() => tryOut(plan.code, trial.fingerprint)))) {
    expectStatus(again, 200)
    expect(again.body).toMatchObject({
      licence_id: trial.licence_id,
      licence_key: trial.licence_key,
      activation_id: trial.activation_id,
    })
  }
  await api.delete(`/v1/licences/${trial.licence_id}/activations/${trial.activation_id}`)
  const again = await tryOut(plan.code, trial.fingerprint)
  expectStatus(again, 200)
  expect(again.body.licence_id).toBe(trial.licence_id)
  expect(again.body.activation_id).not.toBe(trial.activation_id)
  await settled()
  expect(heard('licence.trial_started', trial.licence_id)).toHaveLength(1)
})

test('a machine can have only one trial of an application ever', async () => {
  const { patch, verb, tryOut } = studio
  const refused = async (fingerprint: string, reason: string) => {
    const answer = await tryOut(plan.code, fingerprint)
    expectProblem(answer, 403, 'licence_refused')
    expect(answer.body).toMatchObject({ reason })
  }
  const suspended = await started()
  await verb('suspend', suspended.licence_id)
  await refused(suspended.fingerprint, 'suspended')
  await verb('reactivate', suspended.licence_id)
  expectStatus(await tryOut(plan.code, suspended.fingerprint), 200)

  const ended = {
    revoked: (id: string) => verb('revoke', id),
    retired: (id: string) => verb('retire', id),
    expired: (id: string) => patch(id, { expires_on: inMs(1_500) }),
    bought: (id: string) => patch(id, { external_ref: `customer-${randomUUID()}` }),
  }
  for (const end of Object.values(ended)) {
    const trial = await started()
    expectStatus(await end(trial.licence_id), 200)
    await eventually(() => refused(trial.fingerprint, 'trial_used'))
    // A trial with another plan of the application is refused too.
    const other = await studio.plan({ trial_days: 3 })
    await eventually(async () => {
      expectProblem(await tryOut(other.code, trial.fingerprint), 403, 'licence_refused')
    })
  }
})

test('two concurrent requests with the same fingerprint share one trial', async () => {
  const { tryOut } = studio
  await started()
  const fingerprint = randomUUID()
  const answers = await Promise.all(Array.from({ length: 20 }, () => tryOut(plan.code, fingerprint)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(19)
  expect(new Set(answers.map(({ body }) => body.licence_id)).size).toBe(1)
})

test('an unknown code and a plan without trials are 404, a retired plan is 409 for a new trial', async () => {
  const { api, app, tryOut } = studio
  for (const code of ['no-such-plan', '', 'a b', (await studio.plan()).code]) {
    expectProblem(await tryOut(code), 404, 'not_found')
  }
  const retired = await studio.plan({ trial_days: 7 })
  const running = await started(retired.code)
  await api.post(`${app}/plans/${retired.id}/archive`)
  await eventually(async () => expectProblem(await tryOut(retired.code), 409, 'plan_archived'))
  // The archive of the plan suspended the licence.
  const suspended = await tryOut(retired.code, running.fingerprint)
  expectProblem(suspended, 403, 'licence_refused')
})

test('the list can be filtered by trial', async () => {
  const { api, app } = studio
  const trial = await started()
  const issued = await studio.issue(plan.id)
  const listed = async (query: string) =>
    (await allRows<FullLicence>(api, `${app}/licences?${query}`)).map(({ id }) => id)
  expect(await listed('trial=true')).toContain(trial.licence_id)
  expect(await listed('trial=true')).not.toContain(issued.id)
  expect(await listed('trial=false')).toContain(issued.id)
  expect(await listed('trial=false')).not.toContain(trial.licence_id)
})

test('a trial becomes a customer’s licence when its reference is set, and a payment for that reference applies to it', async () => {
  const { patch, detail, sell } = studio
  const trial = await started()
  const customer = `customer-${randomUUID()}`
  const changed = await patch(trial.licence_id, { external_ref: customer })
  expect(changed.body).toMatchObject({ id: trial.licence_id, external_ref: customer })
  const sold = await sell({ external_ref: customer, plan_id: plan.id })
  expect(sold.body.licence_id).toBe(trial.licence_id)
  expect(await detail(trial.licence_id)).toMatchObject({ trial: false, expires_on: null, status: 'active' })
})

test('the number of new trials of an application per day is limited', async () => {
  const { stack } = market
  const other = await givenStudio(market)
  const tried = await other.plan({ trial_days: 14 })
  const set = (max: string) =>
    runAdmin(stack, 'set-quota', '--account', stack.accountId, '--trials-per-day', max)
  const made = await set('2')
  expect(made.code, made.stderr).toBe(0)
  try {
    await eventually(async () => expectStatus(await other.tryOut(tried.code, 'first'), 201))
    expectStatus(await other.tryOut(tried.code), 201)
    const refused = await other.tryOut(tried.code)
    expectProblem(refused, 409, 'quota_exceeded')
    expect(refused.body).toMatchObject({ limit: 2 })
    expectStatus(await other.tryOut(tried.code, 'first'), 200)
  } finally {
    await set('1000')
  }
})

test('the SDK starts a trial, keeps its key, and says when the machine has had its trial', async () => {
  const install = (fingerprint: string) =>
    new LicenceClient({
      baseUrl: market.stack.gatewayUrl,
      appId: studio.appId,
      rootKey: studio.rootKey,
      fingerprint,
      host: 'a.example.com',
      productVersion: '1',
      background: false,
    })
  await started()
  using product = install('machine-of-the-sdk')
  const state = await product.startTrial(plan.code)
  expect(state).toMatchObject({ status: 'licensed', planId: plan.id })
  expect(product.licenceKey).toBe((await studio.detail(state.licenceId!)).key)
  await studio.verb('revoke', state.licenceId!)
  using again = install('machine-of-the-sdk')
  expect(await again.startTrial(plan.code)).toMatchObject({ status: 'refused', reason: 'trial_used' })
  using unknown = install(randomUUID())
  expect(await unknown.startTrial('no-such-plan')).toMatchObject({
    status: 'refused',
    reason: 'unknown_plan',
  })
})
