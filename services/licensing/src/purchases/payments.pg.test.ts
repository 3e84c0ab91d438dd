import { timestampDate } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { planCopy, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  givenLicence,
  givenPlan,
  history,
  refusal,
  restore,
  verbOn,
} from '../../test/makers.ts'
import { inDays, provision, unique } from '../../test/purchases.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test('a payment of a new customer creates a licence; the same payment again returns it', async () => {
  const plan = await givenPlan(harness)
  const payment = {
    planId: plan.id,
    externalRef: unique('buyer'),
    paymentRef: unique('cs'),
    expiresOn: inDays(30),
  }
  const first = await provision(harness, payment)
  expect(first).toMatchObject({ created: true, licence: { status: 'active', planId: plan.id } })
  expect(timestampDate(first.licence.expiresOn!)).toEqual(payment.expiresOn)
  await archive(harness, plan)
  const again = await provision(harness, payment)
  expect(again).toMatchObject({ created: true, licence: { id: first.licence.id, status: 'suspended' } })
  expect((await events(harness, first.licence))[0]).toEqual({
    type: 'licence.created',
    object: { licence_id: first.licence.id, plan_id: plan.id, status: 'active' },
    previous: null,
  })
  expect((await history(harness, first.licence))[0]).toEqual({
    type: 'created',
    from: undefined,
    to: 'active',
    actor: 'processor',
    cause: payment.paymentRef,
  })
})

test('a payment of a customer who holds a licence moves it to the plan, with its snapshot and expiry', async () => {
  const entitlements = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '0' }]
  const small = await givenPlan(harness, { entitlements: entitlements('1') })
  const large = await givenPlan(harness, { entitlements: entitlements('9') })
  const externalRef = unique('buyer')
  const { licence } = await provision(harness, { planId: small.id, externalRef, expiresOn: inDays(30) })
  const payment = { planId: large.id, externalRef, paymentRef: unique('cs') }
  for (const _ of ['first', 'again']) {
    expect(await provision(harness, payment)).toMatchObject({
      created: false,
      licence: { id: licence.id, key: licence.key, planId: large.id, status: 'active' },
    })
  }
  const detail = await harness.licensing.getLicence(verbOn(harness, licence))
  expect(detail.entitlements).toMatchObject([{ key: 'seats', value: '9' }])
  expect(detail.licence!.expiresOn).toBeUndefined()
  expect((await events(harness, licence)).slice(1)).toEqual([
    {
      type: 'licence.plan_changed',
      object: { licence_id: licence.id, plan_id: large.id, status: 'active' },
      previous: { plan_id: small.id },
    },
  ])
  expect(await history(harness, licence)).toMatchObject([
    { type: 'created' },
    { type: 'plan_changed', from: 'active', to: 'active', actor: 'processor', cause: payment.paymentRef },
  ])
  expect([await activeOn(harness, small), await activeOn(harness, large)]).toEqual([0n, 1n])
})

test('another purchase of the same plan is reported as a plan change, too', async () => {
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const { licence } = await provision(harness, { planId: plan.id, externalRef })
  await provision(harness, { planId: plan.id, externalRef })
  expect((await events(harness, licence)).at(-1)).toMatchObject({
    type: 'licence.plan_changed',
    previous: { plan_id: plan.id },
  })
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('a payment also changes a licence that was issued or imported', async () => {
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const licence = await givenLicence(harness, { planId: plan.id, externalRef })
  expect(await provision(harness, { planId: plan.id, externalRef })).toMatchObject({
    created: false,
    licence: { id: licence.id },
  })
})

test('if a customer has several licences, a payment changes the newest that is not revoked or retired', async () => {
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const ids: string[] = []
  for (const end of ['keep', 'keep', 'revoke', 'retire']) {
    const licence = await givenLicence(harness, { planId: plan.id, externalRef })
    ids.push(licence.id)
    if (end === 'revoke') await harness.licensing.revokeLicence(verbOn(harness, licence))
    if (end === 'retire') await harness.licensing.retireLicence(verbOn(harness, licence))
  }
  expect((await provision(harness, { planId: plan.id, externalRef })).licence.id).toBe(ids[1])
  await harness.licensing.revokeLicence(verbOn(harness, { id: ids[1]! }))
  await harness.licensing.revokeLicence(verbOn(harness, { id: ids[0]! }))
  expect(await provision(harness, { planId: plan.id, externalRef })).toMatchObject({ created: true })
})

test('a plan change of a suspended licence does not change the counters', async () => {
  const plan = await givenPlan(harness)
  const next = await givenPlan(harness)
  const externalRef = unique('buyer')
  const licence = await givenLicence(harness, { planId: plan.id, externalRef })
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  const paid = await provision(harness, { planId: next.id, externalRef })
  expect(paid).toMatchObject({ created: false, licence: { id: licence.id, planId: next.id } })
  expect([await activeOn(harness, plan), await activeOn(harness, next)]).toEqual([0n, 0n])
})

test('a payment for a retired or unknown plan is refused without a trace, and provisions after the cause was removed', async () => {
  const plan = await givenPlan(harness)
  await archive(harness, plan)
  const payment = { planId: plan.id, externalRef: unique('buyer'), paymentRef: unique('cs') }
  expect(await refusal(provision(harness, payment))).toMatchObject({ code: 'plan_archived' })
  expect(await refusal(provision(harness, { ...payment, planId: planCopy(harness).id }))).toMatchObject({
    code: 'validation_failed',
  })
  await restore(harness, plan)
  expect(await provision(harness, payment)).toMatchObject({ created: true })
})

test('a plan without a copy is fetched; while catalog is unavailable the payment can be tried again', async () => {
  const plan = planCopy(harness)
  harness.catalog.copies.set(plan.id, plan)
  const payment = { planId: plan.id, externalRef: unique('buyer'), paymentRef: unique('cs') }
  harness.catalog.unavailable = true
  try {
    expect(await refusal(provision(harness, payment))).toMatchObject({ code: 'unavailable' })
  } finally {
    harness.catalog.unavailable = false
  }
  expect(await provision(harness, payment)).toMatchObject({ created: true })
})
