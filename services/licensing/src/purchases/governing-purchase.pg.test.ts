import { create } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { eventually } from '@licensing/test-support/poll'
import { decodeJwt } from 'jose'
import { expect, test } from 'vitest'
import { callOf, givenActivation } from '../../test/products.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  activeOn,
  archive,
  events,
  givenLicence,
  givenPlan,
  history,
  refusal,
  statusOf,
  update,
  verbOn,
  detailOf,
  licenceOf,
} from '../../test/makers.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import { apply, buy, daysAgo, inDays, refusalOf, unique } from '../../test/purchases.ts'
import type { Bought, EffectFields } from '../../test/purchases.ts'
import { lockCustomers } from './provision-queries.ts'

const harness = await forFile(startHarness)

const shown = async (licence: { id: string }) => {
  const now = await licenceOf(harness, licence)
  return { plan: now.planId, status: now.status, end: endOf(now) }
}
const endOf = ({ expiresOn }: Licence) => (expiresOn ? timestampDate(expiresOn) : null)
const newEvents = async (licence: { id: string }, since: number) =>
  (await events(harness, licence)).slice(since).map(({ type, object, previous }) => {
    return { type, ...object, ...(previous && { previous }) }
  })

/** A customer who bought one plan and later another, with both plans and purchases. */
async function upgraded(ends: { first?: Date; second?: Date } = {}) {
  const [small, large] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const first = await buy(harness, {
    planId: small.id,
    externalRef,
    orderedAt: daysAgo(9),
    ...(ends.first && { endsAt: ends.first }),
  })
  const second = await buy(harness, {
    planId: large.id,
    externalRef,
    orderedAt: daysAgo(5),
    ...(ends.second && { endsAt: ends.second }),
  })
  expect(second.licence.id).toBe(first.licence.id)
  return { small, large, first, second, licence: first.licence }
}

test('after a full refund of the latest purchase the earlier valid one governs the licence: plan, snapshot and end', async () => {
  const end = inDays(20)
  const { small, large, second, licence } = await upgraded({ first: end })
  const before = (await events(harness, licence)).length
  await apply(harness, second, { kind: 'refunded' }, daysAgo(1))
  expect(await shown(licence)).toEqual({ plan: small.id, status: 'active', end })
  expect(await newEvents(licence, before)).toEqual([
    {
      type: 'licence.plan_changed',
      licence_id: licence.id,
      plan_id: small.id,
      status: 'active',
      previous: { plan_id: large.id },
    },
  ])
  expect([await activeOn(harness, small), await activeOn(harness, large)]).toEqual([1n, 0n])
})

test('a refund, chargeback, cancellation, failure, inquiry, partial refund or renewal of an earlier purchase changes nothing', async () => {
  const kinds: EffectFields[] = [
    { kind: 'refunded' },
    { kind: 'charged_back' },
    { kind: 'cancelled' },
    { kind: 'payment_failed' },
    { kind: 'inquiry_opened' },
    { kind: 'inquiry_closed' },
    { kind: 'partially_refunded' },
    { kind: 'renewed', endsAt: timestampFromDate(inDays(300)) },
  ]
  for (const kind of kinds) {
    const { first, licence } = await upgraded({ first: inDays(10) })
    const before = [await shown(licence), await events(harness, licence), await history(harness, licence)]
    await apply(harness, first, kind, daysAgo(1))
    expect([await shown(licence), await events(harness, licence), await history(harness, licence)]).toEqual(
      before,
    )
  }
})

test('without a valid purchase the licence is revoked after a refund or chargeback, and expired after a cancellation', async () => {
  for (const [kind, status] of [
    [{ kind: 'refunded' }, 'revoked'],
    [{ kind: 'charged_back' }, 'revoked'],
    [{ kind: 'cancelled' }, 'expired'],
  ] as const) {
    const { first, second, licence } = await upgraded()
    await apply(harness, first, { kind: 'cancelled' }, daysAgo(2))
    await apply(harness, second, kind, daysAgo(1))
    expect(await statusOf(harness, licence)).toBe(status)
  }
})

test('a partial refund of an expired licence changes nothing until the vendor gives the licence a later end', async () => {
  const { id: planId } = await givenPlan(harness)
  const purchase = { planId, orderedAt: daysAgo(60) }
  const [ended, cancelled] = [
    await buy(harness, { ...purchase, endsAt: daysAgo(30) }),
    await buy(harness, purchase),
  ]
  await sweepExpiries(harness.deps)
  await apply(harness, cancelled, { kind: 'cancelled' }, daysAgo(3))
  for (const bought of [ended, cancelled]) {
    const { licence } = bought
    const seen = [await events(harness, licence), await history(harness, licence)]
    await apply(harness, bought, { kind: 'partially_refunded' }, daysAgo(2))
    expect(await statusOf(harness, licence)).toBe('expired')
    expect([await events(harness, licence), await history(harness, licence)]).toEqual(seen)
    await update(harness, licence, { expiresOn: null })
    expect(await statusOf(harness, licence)).toBe('downgraded')
  }
})

test('the terms on which a licence was issued count as its first purchase', async () => {
  const [issuedOn, paid] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const end = inDays(30)
  const licence = await givenLicence(harness, { planId: issuedOn.id, externalRef, expiresOn: end })
  const bought = await buy(harness, { planId: paid.id, externalRef, orderedAt: daysAgo(3) })
  expect(bought).toMatchObject({ created: false, licence: { id: licence.id, planId: paid.id } })
  await apply(harness, bought, { kind: 'refunded' }, daysAgo(1))
  expect(await shown(licence)).toEqual({ plan: issuedOn.id, status: 'active', end })
})

test('a replacement reactivates a licence that was downgraded or suspended by payments, with an event', async () => {
  for (const lead of ['partially_refunded', 'payment_failed', 'inquiry_opened'] as const) {
    const { second: replaced, licence } = await upgraded()
    await apply(harness, replaced, { kind: lead }, daysAgo(4))
    await apply(harness, replaced, { kind: 'charged_back' }, daysAgo(3))
    expect((await events(harness, licence)).at(-1)).toMatchObject({
      type: 'licence.plan_changed',
      object: { status: 'active' },
    })

    const plan = await givenPlan(harness)
    const externalRef = unique('buyer')
    const first = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(9) })
    const second = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(8) })
    await apply(harness, second, { kind: lead }, daysAgo(4))
    const before = (await events(harness, first.licence)).length
    await apply(harness, second, { kind: 'charged_back' }, daysAgo(3))
    expect(await newEvents(first.licence, before)).toEqual([
      { type: 'licence.reactivated', licence_id: first.licence.id, status: 'active' },
    ])
  }
})

test('a replacement does not end a manual suspension', async () => {
  const { small, second, licence } = await upgraded()
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  await apply(harness, second, { kind: 'refunded' }, daysAgo(1))
  expect(await shown(licence)).toMatchObject({ plan: small.id, status: 'suspended' })
})

test('if the replacement is on a retired plan, the licence is suspended because of the archive', async () => {
  const { small, second, licence } = await upgraded()
  await archive(harness, small)
  const before = (await events(harness, licence)).length
  await apply(harness, second, { kind: 'refunded' }, daysAgo(1))
  expect((await newEvents(licence, before)).map(({ type }) => type)).toEqual([
    'licence.plan_changed',
    'licence.suspended',
  ])
  const detail = await detailOf(harness, licence)
  expect(detail.licence).toMatchObject({ status: 'suspended', statusReason: 'plan_archived' })
  expect(await activeOn(harness, small)).toBe(0n)
})

test('if a purchase ended before it became known and the earlier one is on a retired plan, the licence is suspended', async () => {
  for (const lead of ['partially_refunded', 'payment_failed', 'inquiry_opened'] as const) {
    const [plan, past] = [await givenPlan(harness), await givenPlan(harness)]
    const externalRef = unique('buyer')
    const first = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(9) })
    await apply(harness, first, { kind: lead }, daysAgo(8))
    await archive(harness, plan)
    const late = { planId: past.id, externalRef, orderedAt: daysAgo(7), endsAt: daysAgo(6) }
    const { licence } = await buy(harness, late)
    expect(licence).toMatchObject({ planId: plan.id, status: 'suspended', statusReason: 'plan_archived' })
  }
})

test('an older purchase that arrives late changes neither plan nor status; its event has the licence’s plan', async () => {
  const [old, current] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  const { licence } = await buy(harness, { planId: current.id, externalRef, orderedAt: daysAgo(3) })
  const late = await buy(harness, { planId: old.id, externalRef, orderedAt: daysAgo(30) })
  expect(late).toMatchObject({ created: false, licence: { id: licence.id, planId: current.id } })
  expect((await events(harness, licence)).slice(1)).toEqual([
    {
      type: 'licence.plan_changed',
      object: { licence_id: licence.id, plan_id: current.id, status: 'active' },
      previous: { plan_id: current.id },
    },
  ])
})

test('the plan follows the subscription’s price; on a retired plan the licence is suspended', async () => {
  const [plan, next, retired] = [await givenPlan(harness), await givenPlan(harness), await givenPlan(harness)]
  await archive(harness, retired)
  const bought = await buy(harness, { planId: plan.id, orderedAt: daysAgo(40), endsAt: inDays(5) })
  const renewed = (planId: string) =>
    ({ kind: 'renewed', endsAt: timestampFromDate(inDays(30)), planId }) as const
  await apply(harness, bought, renewed(next.id), daysAgo(2))
  expect(await shown(bought.licence)).toEqual({ plan: next.id, status: 'active', end: expect.any(Date) })
  expect((await events(harness, bought.licence)).at(-1)).toMatchObject({
    type: 'licence.plan_changed',
    previous: { plan_id: plan.id },
  })
  // An earlier invoice that becomes known late does not change the plan.
  await apply(harness, bought, renewed(plan.id), daysAgo(3))
  expect(await shown(bought.licence)).toMatchObject({ plan: next.id })
  await apply(harness, bought, renewed(retired.id), daysAgo(1))
  expect(await shown(bought.licence)).toMatchObject({ plan: retired.id, status: 'suspended' })
})

test('the sweep does not expire a licence with an earlier valid purchase: that purchase governs it', async () => {
  const { small, second, licence } = await upgraded({ second: daysAgo(1) })
  expect(second.licence.status).toBe('active')
  await sweepExpiries(harness.deps)
  expect(await shown(licence)).toEqual({ plan: small.id, status: 'active', end: null })
  const types = (await events(harness, licence)).map(({ type }) => type)
  expect(types).not.toContain('licence.expired')
  expect(types.at(-1)).toBe('licence.plan_changed')
})

/** Lets the end of a purchase pass that governs its licence. */
async function letEnd({ licence, bought }: Bought): Promise<void> {
  await harness.sql`update licences set expires_on = ${daysAgo(1)} where id = ${licence.id}`
  await harness.sql`
    update purchases set ends_at = ${daysAgo(1)}, bought_ends_at = ${daysAgo(1)}
    where purchase_ref = ${bought.purchaseRef}`
}

test('between an end and the sweep, activation and refresh use the earlier valid purchase', async () => {
  const { small, second, licence } = await upgraded({ second: inDays(1) })
  const grant = await givenActivation(harness.products, licence)
  await letEnd(second)
  const refreshed = await harness.products.refreshActivation(callOf(grant))
  expect(decodeJwt(refreshed.token)['plan_id']).toBe(small.id)

  const other = await upgraded({ second: daysAgo(1) })
  const activated = await givenActivation(harness.products, other.licence)
  expect(decodeJwt(activated.token)['plan_id']).toBe(other.small.id)
  const alone = await buy(harness, { planId: small.id, orderedAt: daysAgo(9), endsAt: daysAgo(1) })
  expect(await refusal(givenActivation(harness.products, alone.licence))).toMatchObject({
    code: 'licence_refused',
    members: { reason: 'expired' },
  })
})

test('between an end and the sweep, a payment ends the suspension that the ended purchase required', async () => {
  for (const kind of ['inquiry_opened', 'payment_failed'] as const) {
    const { second, licence } = await upgraded({ second: inDays(1) })
    const { externalRef } = second.bought
    await apply(harness, second, { kind }, daysAgo(4))
    expect(await statusOf(harness, licence)).toBe('suspended')
    await letEnd(second)
    const next = await givenPlan(harness)
    await buy(harness, { planId: next.id, externalRef, orderedAt: new Date() })
    expect([kind, await shown(licence)]).toEqual([kind, { plan: next.id, status: 'active', end: null }])
  }
})

test('a refused effect stops later effects of its own purchase, and no others', async () => {
  const [plan, retired] = [await givenPlan(harness), await givenPlan(harness)]
  await archive(harness, retired)
  const [refused, fine] = [unique('cs'), unique('cs')]
  const about = (purchaseRef: string) => ({
    accountId: harness.accountId,
    applicationId: harness.applicationId,
    purchaseRef,
    at: timestampFromDate(daysAgo(1)),
    orderedAt: timestampFromDate(daysAgo(1)),
  })
  const effect = (purchaseRef: string, cause: string, happened: EffectFields) =>
    create(PurchaseEffectSchema, { ...about(purchaseRef), cause, ...happened })
  const paid = (planId: string): EffectFields => {
    return { kind: 'paid', planId, externalRef: unique('buyer') }
  }
  const cancelled: EffectFields = { kind: 'cancelled' }
  const { results } = await harness.purchases.applyPurchaseEffects({
    effects: [
      effect(refused, 'a', paid(retired.id)),
      effect(fine, 'b', paid(plan.id)),
      effect(refused, 'c', cancelled),
      effect(fine, 'd', cancelled),
      effect('cs_unknown', 'e', cancelled),
      effect(fine, '', cancelled),
    ],
  })
  expect(results.map(refusalOf)).toEqual([
    'plan_archived',
    undefined,
    'plan_archived',
    undefined,
    'not_found',
    'validation_failed',
  ])
})

test('a call that has timed out provisions nothing, even if it gets its lock later', async () => {
  const plan = await givenPlan(harness)
  const { accountId, applicationId } = harness
  const customer = { accountId, applicationId, externalRef: unique('buyer') }
  const message = create(PurchaseEffectSchema, {
    accountId,
    applicationId,
    purchaseRef: unique('cs'),
    cause: 'late',
    kind: 'paid',
    planId: plan.id,
    externalRef: customer.externalRef,
    at: timestampFromDate(daysAgo(1)),
    orderedAt: timestampFromDate(daysAgo(1)),
  })
  const send = (timeoutMs: number) =>
    harness.purchases.applyPurchaseEffects({ effects: [message, message] }, { timeoutMs })
  const waiting = async () => {
    const [row] = await harness.sql<{ waiting: number }[]>`
      select count(*)::int as waiting from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`
    return row!.waiting
  }
  await harness.sql.begin(async (tx) => {
    await lockCustomers(tx, [customer])
    const given = send(500)
    await eventually(async () => expect(await waiting()).toBe(1))
    await expect(given).rejects.toMatchObject({ code: 'unavailable' })
    expect(await waiting()).toBe(1)
  })
  // When this lock is granted, the late call has released it.
  await harness.sql.begin((tx) => lockCustomers(tx, [customer]))
  const licences = await harness.sql`
    select id from licences where application_id = ${applicationId} and external_ref = ${customer.externalRef}`
  expect(licences).toEqual([])
  await archive(harness, plan)
  const { results } = await send(5_000)
  expect(results.map(refusalOf)).toEqual(['plan_archived', 'plan_archived'])
})
