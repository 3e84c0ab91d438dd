import { timestampDate } from '@bufbuild/protobuf/wkt'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { forFile, planCopy, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  actor,
  archive,
  events,
  givenPlan,
  history,
  issue,
  refusal,
  restore,
  verbOn,
  detailOf,
} from '../../test/makers.ts'

const harness = await forFile(startHarness)

const anHour = 3_600_000

test('an issued licence is active, has all requested values, and sends no event', async () => {
  const plan = await givenPlan(harness)
  const expiresOn = new Date(Date.now() + anHour)
  const { licence, replayed } = await issue(harness, {
    planId: plan.id,
    externalRef: 'customer 7 – Ærø',
    expiresOn,
    domains: ['Shop.Example.com', '*.example.org'],
    maxActivations: 3,
    maxSeats: 10,
  })
  expect(replayed).toBe(false)
  expect(licence).toMatchObject({
    status: 'active',
    planId: plan.id,
    applicationId: harness.applicationId,
    externalRef: 'customer 7 – Ærø',
    restrictions: { domains: ['shop.example.com', '*.example.org'], maxActivations: 3, maxSeats: 10 },
  })
  expect(licence!.key).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}(-[0-9A-HJKMNP-TV-Z]{5}){4}$/)
  expect(timestampDate(licence!.expiresOn!)).toEqual(expiresOn)
  const detail = await detailOf(harness, licence!)
  expect(detail.licence).toEqual(licence)
  expect(await history(harness, licence!)).toEqual([
    { type: 'issued', from: undefined, to: 'active', actor, cause: undefined },
  ])
  expect(await events(harness, licence)).toEqual([])
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('the snapshot has the plan’s entitlements at issue time, even if the plan changes later', async () => {
  const plan = await givenPlan(harness, {
    entitlements: [
      { key: 'seats', kind: 'limit', value: '5', default: '1' },
      { key: 'export', kind: 'feature', value: 'true', default: 'false' },
    ],
  })
  const { licence } = await issue(harness, { planId: plan.id })
  const entitlements = [{ key: 'export', kind: 'feature', value: 'false', default: 'false' }]
  await harness.licensing.syncPlans({
    plans: [planCopy(harness, { id: plan.id, version: 2n, entitlements })],
  })
  const later = await issue(harness, { planId: plan.id })
  const shown = async (id: string) =>
    (await detailOf(harness, { id })).entitlements.map(({ key, kind, value }) => `${key} ${kind} ${value}`)
  expect(await shown(licence!.id)).toEqual(['export feature true', 'seats limit 5'])
  expect(await shown(later.licence!.id)).toEqual(['export feature false'])
})

test('a repetition with the same key and body returns the licence in its current state, and creates no second one', async () => {
  const plan = await givenPlan(harness)
  const same = { planId: plan.id, idempotencyKey: 'order-1' }
  const first = await issue(harness, same)
  await harness.licensing.suspendLicence(verbOn(harness, first.licence!))
  await archive(harness, plan)
  const again = await issue(harness, same)
  expect(again.replayed).toBe(true)
  expect(again.licence).toMatchObject({
    id: first.licence!.id,
    key: first.licence!.key,
    status: 'suspended',
    statusReason: 'manual',
  })
})

test('a replay is answered even if the requested expiry has passed', async () => {
  const plan = await givenPlan(harness)
  const expiresOn = new Date(Date.now() + 3_000)
  const same = { planId: plan.id, idempotencyKey: 'short', expiresOn }
  const first = await issue(harness, same)
  await sleep(Math.max(0, expiresOn.getTime() - Date.now()) + 20)
  expect(await issue(harness, same)).toMatchObject({ replayed: true, licence: { id: first.licence!.id } })
})

test('the same key with another body is refused, also in one batch with the first', async () => {
  const plan = await givenPlan(harness)
  const tries = ['a', 'b'].map((body) => issue(harness, { planId: plan.id, idempotencyKey: 'order-2', body }))
  const outcomes = await Promise.allSettled(tries)
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  expect(refused).toHaveLength(1)
  expect(refused[0]!.reason).toMatchObject({ code: 'idempotency_mismatch' })
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('an idempotency key belongs to one application', async () => {
  const plan = await givenPlan(harness)
  const other = { ...harness, applicationId: 'app_other' }
  const otherPlan = await givenPlan(other)
  const first = await issue(harness, { planId: plan.id, idempotencyKey: 'shared' })
  const second = await issue(other, { planId: otherPlan.id, idempotencyKey: 'shared', body: 'another' })
  expect(second.replayed).toBe(false)
  expect(second.licence!.id).not.toBe(first.licence!.id)
})

test('a refused request does not use up its key', async () => {
  const plan = await givenPlan(harness)
  await archive(harness, plan)
  const same = { planId: plan.id, idempotencyKey: 'order-3' }
  const { code, message } = await refusal(issue(harness, same))
  expect(code).toBe('plan_archived')
  expect(message).toContain(`restore plan ${plan.id} first`)
  await restore(harness, plan)
  expect(await issue(harness, { ...same, body: 'another' })).toMatchObject({ replayed: false })
})

test('a plan that is unknown, another application’s or another account’s is refused with a pointer to it', async () => {
  const otherApplication = await givenPlan({ ...harness, applicationId: 'app_other' })
  const otherAccount = await givenPlan({ ...harness, accountId: 'acct_other' })
  for (const planId of [planCopy(harness).id, 'nonsense', '', otherApplication.id, otherAccount.id]) {
    const { code, errors } = await refusal(issue(harness, { planId }))
    expect({ code, pointers: errors.map((error) => error.pointer) }).toEqual({
      code: 'validation_failed',
      pointers: ['/plan_id'],
    })
  }
})

test('while catalog is unavailable, issue works on known plans and answers unavailable for other plans', async () => {
  const plan = await givenPlan(harness)
  harness.catalog.unavailable = true
  try {
    expect(await issue(harness, { planId: plan.id })).toMatchObject({ replayed: false })
    expect((await refusal(issue(harness, { planId: planCopy(harness).id }))).code).toBe('unavailable')
  } finally {
    harness.catalog.unavailable = false
  }
})

test.each([
  ['/external_ref', { externalRef: '' }],
  ['/external_ref', { externalRef: 'x'.repeat(256) }],
  ['/external_ref', { externalRef: 'nul \u0000' }],
  ['/expires_on', { expiresOn: new Date(Date.now() - 1) }],
  ['/restrictions/domains/1', { domains: ['good.example.com', 'bad"example.com'] }],
  ['/restrictions/domains', { domains: Array.from({ length: 101 }, (_, at) => `d${at}.example.com`) }],
  ['/restrictions/max_activations', { maxActivations: 0 }],
  ['/restrictions/max_seats', { maxSeats: -1 }],
])('a request with a wrong %s is refused with a pointer to it (%#)', async (pointer, fields) => {
  const plan = await givenPlan(harness)
  const { code, errors } = await refusal(issue(harness, { planId: plan.id, ...fields }))
  expect(code).toBe('validation_failed')
  expect(errors.map((error) => error.pointer)).toEqual([pointer])
  expect(await activeOn(harness, plan)).toBe(0n)
})

test.each(['', 'x'.repeat(256)])('an invalid idempotency key is refused (%#)', async (idempotencyKey) => {
  const plan = await givenPlan(harness)
  expect((await refusal(issue(harness, { planId: plan.id, idempotencyKey }))).code).toBe(
    'idempotency_key_required',
  )
})

test('in one batch each request gets its own outcome', async () => {
  const plan = await givenPlan(harness)
  const retired = await givenPlan(harness)
  await archive(harness, retired)
  const before = await issue(harness, { planId: plan.id, idempotencyKey: 'seen', body: 'seen' })
  const outcomes = await Promise.allSettled([
    issue(harness, { planId: plan.id }),
    issue(harness, { planId: retired.id }),
    issue(harness, { planId: 'pln_none' }),
    issue(harness, { planId: plan.id, idempotencyKey: 'seen', body: 'seen' }),
    issue(harness, { planId: plan.id, idempotencyKey: 'seen', body: 'other' }),
    issue(harness, { planId: plan.id }),
  ])
  const shown = outcomes.map((outcome) =>
    outcome.status === 'fulfilled'
      ? [outcome.value.replayed, outcome.value.licence!.id === before.licence!.id]
      : (outcome.reason as { code: string }).code,
  )
  expect(shown).toEqual([
    [false, false],
    'plan_archived',
    'validation_failed',
    [true, true],
    'idempotency_mismatch',
    [false, false],
  ])
})
